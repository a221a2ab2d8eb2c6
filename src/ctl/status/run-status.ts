import { findProblems } from "../../status/diagnosis/problems.ts";
import { nodeStatusShape } from "../../status/shape.ts";
import { type CommandContext, printJson } from "../command-context.ts";
import { EXIT, type ExitCode } from "../commands.ts";
import { askDaemon } from "../daemon-client.ts";
import { renderStatus } from "./render-status.ts";

/** `vhostuserctl status`. */
export async function runStatus(context: CommandContext): Promise<ExitCode> {
  const status = await askDaemon(await context.socket(), "/v1/node", nodeStatusShape);
  const problems = findProblems(status);
  if (context.json) printJson(context, { ...status, problems });
  else context.screen.write(renderStatus(context.screen, status, problems));
  return problems.length === 0 ? EXIT.healthy : EXIT.problem;
}
