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
  /** Says which step of the Dockerfile is being done. */
  readonly show?: ((text: string) => void) | undefined;
}

/**
 * Builds the image for every processor and writes the index of them all as an OCI image layout. Neither a Docker engine
 * nor privileges inside a build are needed: nothing is run.
 * @throws Failure part-missing without buildah
 */
export async function buildWithBuildah(options: BuildahOptions): Promise<void> {
  const { state, storage, name, layout } = options;
  const buildah = await openBuildah(storage, options.show);
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

/**
 * Builds an image for this machine from a folder with a Dockerfile, whose commands run in it, and writes it as an archive.
 * @param base what the Dockerfile's BASE is, in a registry or in the storage
 * @throws Failure part-missing without buildah
 */
export async function buildExample(options: {
  readonly folder: string;
  readonly base: string;
  readonly storage: string;
  readonly name: string;
  readonly file: string;
  readonly show: (text: string) => void;
}): Promise<void> {
  const { folder, base, storage, name, file, show } = options;
  const buildah = await openBuildah(storage, show);
  await buildah("build", "--isolation", "chroot", "--build-arg", `BASE=${base}`, "--tag", name, folder);
  await buildah("push", name, `oci-archive:${file}:${name}`);
}

/** buildah with a storage of its own. The driver copies instead of mounting, and so works in containers, too. */
async function openBuildah(
  storage: string,
  show: (text: string) => void = () => undefined,
): Promise<(...args: readonly string[]) => Promise<void>> {
  await mkdir(storage, { recursive: true });
  const places = ["--root", join(storage, "root"), "--runroot", join(storage, "run")];
  const onLine = (line: string) => {
    if (/STEP \d/.test(line)) show(line);
  };
  return async (...args) => {
    try {
      const whole = [...places, "--storage-driver", "vfs", ...args];
      await runProgram("buildah", whole, { limitMs: LIMIT_MS, onLine });
    } catch (error) {
      const failure = toFailure(error);
      if (failure.code !== "part-missing") throw error;
      const { code, what } = failure;
      throw new Failure({ code, what, fix: "apt-get install buildah", cause: error });
    }
  };
}
