import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Failure, toFailure } from "../../src/failure/failure.ts";
import { runProgram } from "../../test/machine/run-program.ts";
import type { Processor } from "./processor.ts";
import type { SourceState } from "./source-state.ts";

/**
 * The time of every file and layer: not the release's, for a layer whose files are those of the release before must be
 * the same layer, which a node then has already.
 */
const FILE_TIME = "0";
const LIMIT_MS = 15 * 60_000;

/** What buildah builds. */
export interface BuildahOptions {
  readonly processors: readonly Processor[];
  readonly state: SourceState;
  readonly context: string;
  /** Directory of buildah's storage, its own or a temporary one. */
  readonly storage: string;
  /** Whole name of the image, with its tag. */
  readonly name: string;
  /** Where the OCI image layout goes. */
  readonly layout: string;
}

/**
 * Builds the image for every processor and writes the index of them all as an OCI image layout. Neither a Docker engine
 * nor privileges inside a build are needed: nothing is run. The storage driver copies instead of mounting, and so works
 * in containers, too.
 * @throws Failure part-missing without buildah
 */
export async function buildWithBuildah(options: BuildahOptions): Promise<void> {
  const { state, storage, name, layout } = options;
  await mkdir(storage, { recursive: true });
  const store = [
    "--root",
    join(storage, "root"),
    "--runroot",
    join(storage, "run"),
    "--storage-driver",
    "vfs",
  ];
  const buildah = async (...args: readonly string[]) => {
    try {
      await runProgram("buildah", [...store, ...args], { limitMs: LIMIT_MS });
    } catch (error) {
      const failure = toFailure(error);
      if (failure.code !== "part-missing") throw error;
      const { code, what } = failure;
      throw new Failure({ code, what, fix: "apt-get install buildah", cause: error });
    }
  };
  const created = new Date(state.created * 1000).toISOString();
  // A storage that is kept has the index of the build before, and this one would be added to it.
  await buildah("rmi", "--force", name).catch(() => undefined);
  // One after the other: built at once they are in the index in the order in which they are done.
  for (const { oci } of options.processors) {
    await buildah(
      ...["build", "--isolation", "chroot", "--format", "oci", "--layers", "--timestamp", FILE_TIME],
      "--identity-label=false",
      ...["--build-arg", `VERSION=${state.version}`, "--build-arg", `REVISION=${state.revision}`],
      ...["--build-arg", `CREATED=${created}`, "--platform", `linux/${oci}`, "--manifest", name],
      ...["--file", "deploy/image/Dockerfile", options.context],
    );
  }
  await buildah("manifest", "push", "--all", name, `oci:${layout}:${name}`);
}
