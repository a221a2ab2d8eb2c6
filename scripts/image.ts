// npm run image: the image for both processors, as OCI archives with their bills of materials, by buildah.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { programOf, runProgram } from "../src/command-line/program.ts";
import { Failure } from "../src/failure/failure.ts";
import { buildStep } from "./build/build-all.ts";
import { buildImage, REPOSITORY } from "./image/build-image.ts";
import { buildExample } from "./image/buildah.ts";
import { type DebianLock, type LockedPackage, readDebianLock, writeDebianLock } from "./image/debian-lock.ts";
import { fetchPackages } from "./image/fetch-packages.ts";
import { PROCESSORS } from "./image/processor.ts";
import { sizeTable } from "./image/sizes.ts";
import { sourceState } from "./image/source-state.ts";
import { Narrator } from "./narrator.mjs";

interface Options {
  readonly processors: string;
  readonly name: string;
  readonly currentPackages?: true;
  readonly renewPackages?: true;
  readonly storage?: string;
  readonly examples?: true;
  readonly base: string;
}

/** Folders of deploy/examples/images, each with the tag of what the manifests name: the version of what is in it. */
const EXAMPLES = { testpmd: "24.11", "ovs-dpdk": "3.5" } as const;

const OUTPUT = "dist/image";
const DOWNLOADS = "dist/image/downloads";

async function main(values: Options): Promise<void> {
  if (values.renewPackages) return renewPackages();
  if (values.examples) return buildExamples(values);
  const state = await sourceState(process.env["SOURCE_DATE_EPOCH"]);
  const processors = chooseProcessors(values.processors);
  const narrator = new Narrator(process.stderr, `dist/durations/image-${processors.length}.json`);
  await buildStep(
    narrator,
    processors.map(({ node }) => node),
  );
  const lock = values.currentPackages ? undefined : await readDebianLock();
  const built = await narrator.step("image", `image of ${values.processors}`, async () => ({
    result: await buildImage({
      ...{ state, output: OUTPUT, downloads: DOWNLOADS, storage: values.storage, processors, lock },
      name: `${values.name}:${state.version}`,
      show: (text) => narrator.show(text),
    }),
  }));
  narrator.remember();
  // For the release workflow: what to sign, and what to compare.
  const images = Object.fromEntries(
    built.images.map(({ architecture, manifest }) => [architecture, manifest.digest]),
  );
  const summary = { ...state, name: values.name, index: built.index.digest, images, sizes: built.sizes };
  await writeFile(`${OUTPUT}/image.json`, `${JSON.stringify(summary, undefined, 2)}\n`);
  console.log(`${values.name}:${state.version}, commit ${state.revision}`);
  console.log(`${built.index.digest}  index`);
  for (const { architecture, manifest } of built.images) console.log(`${manifest.digest}  ${architecture}`);
  console.log(
    `\n${"".padEnd(16)}${"packed".padStart(10)}${"unpacked".padStart(10)}\n${sizeTable(built.sizes)}\n`,
  );
  for (const file of built.files) console.log(file);
}

async function buildExamples({ storage, base }: Options): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), "kvu-examples-"));
  try {
    const narrator = new Narrator(process.stderr, "dist/durations/image-examples.json");
    await mkdir(OUTPUT, { recursive: true });
    for (const [name, tag] of Object.entries(EXAMPLES)) {
      const file = `${OUTPUT}/example-${name}.oci.tar`;
      await rm(file, { force: true });
      await narrator.step(name, `image ${name}, with packages of Debian 13`, () =>
        buildExample({
          ...{ base, file, storage: storage ?? scratch, folder: `deploy/examples/images/${name}` },
          name: `localhost/example-${name}:${tag}`,
          show: (text) => narrator.show(text),
        }),
      );
      console.log(file);
    }
    narrator.remember();
  } finally {
    await rm(scratch, { recursive: true });
  }
}

function chooseProcessors(list: string) {
  return list.split(",").map((name) => {
    const found = PROCESSORS.find(({ oci }) => oci === name);
    if (found !== undefined) return found;
    throw new Failure({
      code: "invalid-request",
      what: `there is no image for ${JSON.stringify(name)}`,
      where: "--processors",
      fix: `choose from ${PROCESSORS.map(({ oci }) => oci).join(", ")}`,
    });
  });
}

async function renewPackages(): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), "kvu-packages-"));
  try {
    const lock: Record<string, DebianLock[string]> = {};
    for (const { oci } of PROCESSORS) {
      const options = { architecture: oci, downloads: DOWNLOADS, scratch: join(scratch, oci) };
      const packages: Record<string, LockedPackage> = {};
      for (const { name, version, sha256 } of await fetchPackages(options))
        packages[name] = { version, sha256 };
      lock[oci] = packages;
    }
    await writeDebianLock(lock);
  } finally {
    await rm(scratch, { recursive: true });
  }
}

const program = programOf(
  "npm run image --",
  "Builds the image for amd64 and arm64 below dist/image: an OCI image layout, an archive of it and one for each processor, and a bill of materials (SPDX) for each. Needs buildah, and what npm run build needs; no command runs in the image.",
)
  .option(
    "--processors <list>",
    "amd64, arm64 or both with a comma between",
    PROCESSORS.map(({ oci }) => oci).join(","),
  )
  .option("--name <name>", "name of the image", REPOSITORY)
  .option("--current-packages", "use the Debian packages that the archive has now instead of the pinned ones")
  .option("--renew-packages", "pin those, in deploy/image/debian-packages.json, and build nothing")
  .option("--storage <directory>", "keep buildah's storage there (default: a temporary one)")
  .option(
    "--examples",
    "build the images of deploy/examples for this machine instead, with Debian's packages of today",
  )
  .option("--base <image>", "Debian 13 to build them on", "docker.io/library/debian:13-slim")
  .action(main);
await runProgram(program);
