import { readFile } from "node:fs/promises";
import { Failure } from "../failure/failure.ts";

/** The capabilities that the daemon needs as uid 0, by their bit (capabilities(7)), and what for. */
export const NEEDED_CAPABILITIES = {
  CAP_CHOWN: { bit: 0, what: "gives socket directories to their pool's owner and group" },
  CAP_DAC_OVERRIDE: {
    bit: 1,
    what: "looks into and empties directories that are a pod's; reaches the switch's socket",
  },
  CAP_FOWNER: { bit: 3, what: "sets the mode of directories and sockets that are a pod's" },
  CAP_FSETID: { bit: 4, what: "sets setgid on directories of a group that the daemon is not in" },
} as const;

/**
 * Checks that this process has what it needs, so that a missing capability is named at the start and not found by
 * the first pod. @throws Failure `capability-missing`
 */
export async function checkCapabilities(statusFile = "/proc/self/status"): Promise<void> {
  const effective = BigInt(
    `0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(await readFile(statusFile, "utf8"))?.[1] ?? "0"}`,
  );
  const missing = Object.entries(NEEDED_CAPABILITIES).filter(
    ([, { bit }]) => !(effective & (1n << BigInt(bit))),
  );
  if (missing.length === 0) return;
  throw new Failure({
    code: "capability-missing",
    what: `the daemon lacks ${missing.map(([name, { what }]) => `${name} (${what})`).join(", ")}`,
    where: "securityContext.capabilities.add of its container",
    fix: "see docs/security.md",
  });
}
