// What this process and this node must have, checked before the first pod finds it missing.
import { mkdir, readFile, rmdir } from "node:fs/promises";
import { openDirectory } from "../allocation/open-directory.ts";
import { setSelinuxLabel } from "../allocation/selinux-label.ts";
import type { DaemonConfig } from "../config/schema.ts";
import { Failure, systemCode } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";

/** The capabilities that the daemon needs as uid 0, by their bit (capabilities(7)), and what for. */
export const NEEDED_CAPABILITIES = {
  CAP_CHOWN: { bit: 0, what: "gives socket directories to their pool's owner and group" },
  CAP_DAC_OVERRIDE: { bit: 1, what: "reads and empties pods' directories; reaches the switch's socket" },
  CAP_FOWNER: { bit: 3, what: "sets the mode of pods' directories and sockets" },
  CAP_FSETID: { bit: 4, what: "sets setgid on directories of a group that the daemon is not in" },
} as const;

/** @throws Failure `capability-missing` with the name of each that this process lacks */
export async function checkCapabilities(statusFile = "/proc/self/status"): Promise<void> {
  const [, effective = "0"] = /^CapEff:\s*([0-9a-f]+)$/m.exec(await readFile(statusFile, "utf8")) ?? [];
  const missing = Object.entries(NEEDED_CAPABILITIES).filter(
    ([, { bit }]) => !(BigInt(`0x${effective}`) & (1n << BigInt(bit))),
  );
  if (missing.length === 0) return;
  throw new Failure({
    code: "capability-missing",
    what: `the daemon lacks ${missing.map(([name, { what }]) => `${name} (${what})`).join(", ")}`,
    where: "securityContext.capabilities.add of its container",
    fix: "see docs/security.md",
  });
}

/**
 * Sets each pool's SELinux label once on a directory that it makes for that and removes again. Where the node has no
 * labels, it warns.
 * @throws Failure `label-refused`, `part-missing`
 */
export async function checkLabels(
  { root: path, pools }: Pick<DaemonConfig, "root" | "pools">,
  logger: Logger,
): Promise<void> {
  for (const label of new Set(pools.flatMap(({ directory }) => directory.selinuxLabel ?? []))) {
    using root = openDirectory(path);
    const probe = `${root.self}/.label-probe`;
    await mkdir(probe, { mode: 0o700 }).catch((error: unknown) => {
      if (systemCode(error) !== "EEXIST") throw error;
    });
    try {
      using directory = openDirectory(probe);
      if ((await setSelinuxLabel([directory.fd], label)) === "set") continue;
      logger.warn({ label }, "this node has no SELinux labels; the pool's selinuxLabel is ignored");
    } finally {
      await rmdir(probe);
    }
  }
}
