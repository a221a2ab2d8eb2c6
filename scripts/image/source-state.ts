import manifest from "../../package.json" with { type: "json" };
import { runProgram } from "../../test/machine/run-program.ts";

/** Which sources an image is of. */
export interface SourceState {
  /** Of package.json. */
  readonly version: string;
  /** Commit, with `-modified` where the files differ from it; `unknown` outside a checkout. */
  readonly revision: string;
  /** Seconds since 1970: of the commit, or SOURCE_DATE_EPOCH. */
  readonly created: number;
}

/** Asks git; `epoch` is the environment's SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/). */
export async function sourceState(epoch: string | undefined): Promise<SourceState> {
  const git = async (...args: readonly string[]) => (await runProgram("git", args)).stdout.trim();
  const { version } = manifest;
  try {
    const [commit, seconds, changes] = [
      await git("rev-parse", "HEAD"),
      await git("log", "-1", "--format=%ct"),
      await git("status", "--porcelain", "--untracked-files=no"),
    ];
    return {
      version,
      revision: changes === "" ? commit : `${commit}-modified`,
      created: Number(epoch ?? seconds),
    };
  } catch {
    return { version, revision: "unknown", created: Number(epoch ?? 0) };
  }
}
