import { link, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runProgram } from "../../test/machine/run-program.ts";

/** A part of an OCI image layout, https://github.com/opencontainers/image-spec/blob/main/descriptor.md */
export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly platform?: { readonly architecture: string; readonly os: string };
  readonly annotations?: Readonly<Record<string, string>>;
}

/** The image of one processor in a layout. */
export interface ImageOfProcessor {
  readonly architecture: string;
  readonly manifest: Descriptor;
  readonly config: Descriptor;
  readonly layers: readonly Descriptor[];
}

/** What is in a layout: the index and the images that it lists. */
export interface LayoutContents {
  readonly index: Descriptor;
  readonly images: readonly ImageOfProcessor[];
}

const blob = (layout: string, digest: string) => join(layout, "blobs", ...digest.split(":"));

async function readBlob<T>(layout: string, { digest }: Descriptor): Promise<T> {
  return JSON.parse(await readFile(blob(layout, digest), "utf8")) as T;
}

/** Reads a layout that holds one index. */
export async function readLayout(layout: string): Promise<LayoutContents> {
  const top = JSON.parse(await readFile(join(layout, "index.json"), "utf8")) as { manifests: [Descriptor] };
  const [index] = top.manifests;
  const { manifests } = await readBlob<{ manifests: Descriptor[] }>(layout, index);
  const images = manifests.map(async (manifest) => ({
    manifest,
    architecture: manifest.platform?.architecture ?? "unknown",
    ...(await readBlob<{ config: Descriptor; layers: Descriptor[] }>(layout, manifest)),
  }));
  return { index, images: await Promise.all(images) };
}

/** Reads the configuration of an image: user, entry point and so on. */
export function readImageConfig(layout: string, image: ImageOfProcessor): Promise<{ config: unknown }> {
  return readBlob(layout, image.config);
}

/** Unpacks an image's layers on top of each other, as a runtime does. Ours never remove anything. */
export async function unpackImage(layout: string, image: ImageOfProcessor, directory: string): Promise<void> {
  for (const { digest } of image.layers) {
    await runProgram("tar", ["-xzpf", blob(layout, digest), "--same-owner", "-C", directory]);
  }
}

/** Writes the images of one processor as an archive that podman, ctr and skopeo load; the same bytes each time. */
export async function writeArchive(options: {
  layout: string;
  image: ImageOfProcessor;
  /** Whole name of the image, with its tag. */
  name: string;
  scratch: string;
  file: string;
}): Promise<void> {
  const { layout, image, name, scratch, file } = options;
  const top = join(scratch, image.architecture);
  await mkdir(join(top, "blobs/sha256"), { recursive: true });
  for (const { digest } of [image.manifest, image.config, ...image.layers]) {
    await link(blob(layout, digest), blob(top, digest));
  }
  const { platform: _, ...manifest } = image.manifest;
  // The first is what the image's format knows; containerd asks for a whole name, and has a key of its own for it.
  const annotations = { "org.opencontainers.image.ref.name": name, "io.containerd.image.name": name };
  const index = { schemaVersion: 2, manifests: [{ ...manifest, annotations }] };
  await writeFile(join(top, "index.json"), JSON.stringify(index));
  await writeFile(join(top, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  await packLayout(top, file);
}

/** Packs a layout with everything in it; the same bytes each time. */
export async function packLayout(layout: string, file: string): Promise<void> {
  const same = [
    "--sort=name",
    "--mtime=@0",
    "--owner=0",
    "--group=0",
    "--numeric-owner",
    "--mode=u=rwX,go=rX",
  ];
  await runProgram("tar", ["-cf", file, ...same, "--format=ustar", "-C", layout, "."], { limitMs: 600_000 });
}
