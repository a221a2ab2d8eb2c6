import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { checkRoot } from "../../allocation/directory/check-root.ts";
import { Failure } from "../../failure/failure.ts";
import { type Finding, fine, type NodeCheck, problem, warning } from "./node-check.ts";

/** Below this share of free inodes pods soon get no directories. */
const SCARCE = 0.1;

/** The root and its mount flags, and whether there is room in it. */
export const rootCheck: NodeCheck = {
  name: "root",
  check: async ({ config, host }) => {
    const { root, rootFileSystem } = config;
    const flags = await checkFlags(root, rootFileSystem.allowInsecure, join(host.proc, "self/mountinfo"));
    if (flags.verdict === "problem") return [flags];
    const { files, ffree } = await statfs(root);
    // A file system that counts no inodes has no bound on them.
    const free = files === 0 ? 1 : ffree / files;
    const text = `${Math.floor(free * 100)} % of ${files} inodes free`;
    return [
      flags,
      free < SCARCE
        ? problem(
            text,
            "see which pod fills its directory (the daemon's log); rootFileSystem.inodes sets the bound",
          )
        : fine(text),
    ];
  },
};

async function checkFlags(root: string, allowInsecure: boolean, mountInfo: string): Promise<Finding> {
  try {
    const reasons = await checkRoot({ root, allowInsecure, mountInfo });
    if (reasons.length === 0) return fine(`${root} is mounted nosymfollow,nosuid,nodev,noexec`);
    return warning(
      `${root}: ${reasons.join("; ")}`,
      "rootFileSystem.allowInsecure lets this pass; run dist/mount-root/main.mjs before pods of others come",
    );
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return problem(`${error.what} (${root})`, error.fix ?? "see docs/security.md");
  }
}
