// npm run image: the image for both processors, as OCI archives with their bills of materials, by buildah.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Failure, toFailure } from "../src/failure/failure.ts";
import { buildAll } from "./build/build-all.ts";
import { buildImage, REPOSITORY } from "./image/build-image.ts";
import { type DebianLock, type LockedPackage, readDebianLock, writeDebianLock } from "./image/debian-lock.ts";
import { fetchPackages } from "./image/fetch-packages.ts";
import { PROCESSORS } from "./image/processor.ts";
import { sizeTable } from "./image/sizes.ts";
import { sourceState } from "./image/source-state.ts";

const USAGE = `npm run image [-- OPTIONS]

Builds the image for amd64 and arm64 below dist/image: an OCI image layout, an archive of it and one for each processor,
and a bill of materials (SPDX) for each. Needs buildah, and what npm run build needs; nothing is run in the image.

  --processors LIST    amd64, arm64 or both with a comma between (default: both)
  --name NAME          name of the image (default ${REPOSITORY})
  --current-packages   take the Debian packages that the archive has now instead of the pinned ones
  --renew-packages     pin those, in deploy/image/debian-packages.json, and build nothing
  --storage DIR        keep buildah's storage there (default: a temporary one)
`;

const OUTPUT = "dist/image";
const DOWNLOADS = "dist/image/downloads";

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      processors: { type: "string", default: PROCESSORS.map(({ oci }) => oci).join(",") },
      name: { type: "string", default: REPOSITORY },
      "current-packages": { type: "boolean", default: false },
      "renew-packages": { type: "boolean", default: false },
      storage: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return void process.stdout.write(USAGE);
  if (values["renew-packages"]) return renewPackages();
  const state = await sourceState(process.env["SOURCE_DATE_EPOCH"]);
  await buildAll();
  const built = await buildImage({
    ...{ state, output: OUTPUT, downloads: DOWNLOADS, storage: values.storage },
    processors: chooseProcessors(values.processors),
    lock: values["current-packages"] ? undefined : await readDebianLock(),
    name: `${values.name}:${state.version}`,
  });
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

main().catch((error: unknown) => {
  const failure = toFailure(error);
  console.error(`image: ${failure.code}: ${failure.message}`);
  if (failure.code === "internal" && failure.cause instanceof Error) console.error(failure.cause.stack);
  process.exitCode = 1;
});
