import { nodeStatusShape } from "../../status/shape.ts";
import type { CommandContext } from "../command-context.ts";
import { EXIT, type ExitCode } from "../commands.ts";
import { askDaemon } from "../daemon-client.ts";
import { completionScript, type Shell } from "./completion.ts";

/** What the scripts ask for the pods of the node with; people have status for that. */
export const PODS = "pods";

/** `vhostuserctl completion`. */
export async function runCompletion({ screen, socket }: CommandContext, asked: string): Promise<ExitCode> {
  if (asked !== PODS) {
    screen.write(completionScript(asked as Shell));
    return EXIT.healthy;
  }
  const { interfaces } = await askDaemon(await socket(), "/v1/node", nodeStatusShape);
  // A shell expands the words that it is given: only names as Kubernetes allows them.
  const pods = new Set(
    interfaces
      .map(({ pod }) => `${pod.namespace}/${pod.name}`)
      .filter((name) => /^[a-z0-9.-]+\/[a-z0-9.-]+$/.test(name)),
  );
  screen.write(
    [...pods]
      .sort()
      .join("\n")
      .concat(pods.size > 0 ? "\n" : ""),
  );
  return EXIT.healthy;
}
