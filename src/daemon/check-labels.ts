import { mkdir, rmdir } from "node:fs/promises";
import { openDirectory } from "../allocation/open-directory.ts";
import { setSelinuxLabel } from "../allocation/selinux-label.ts";
import type { DaemonConfig } from "../config/schema.ts";
import { systemCode } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";

/** What is tried, and how. */
export interface LabelCheck {
  readonly config: Pick<DaemonConfig, "root" | "pools">;
  readonly logger: Logger;
  readonly setLabel?: typeof setSelinuxLabel;
}

/**
 * Sets each pool's SELinux label once on a directory that it makes for that and removes again, so that a label which
 * the policy refuses is known at the start. Labels that mean nothing here are told of once and do no harm.
 * @throws Failure `label-refused`, `part-missing`
 */
export async function checkLabels(check: LabelCheck): Promise<void> {
  const labels = new Set(check.config.pools.flatMap(({ directory }) => directory.selinuxLabel ?? []));
  for (const label of labels) {
    using root = openDirectory(check.config.root);
    const probe = root.entry(".label-probe");
    await mkdir(probe, { mode: 0o700 }).catch((error: unknown) => {
      if (systemCode(error) !== "EEXIST") throw error;
    });
    try {
      using directory = openDirectory(probe);
      const done = await (check.setLabel ?? setSelinuxLabel)([directory.fd], label);
      if (done === "set") continue;
      check.logger.warn({ label }, "this node has no SELinux labels; the pool's selinuxLabel is left out");
    } finally {
      await rmdir(probe);
    }
  }
}
