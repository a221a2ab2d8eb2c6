import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildWithBuildah } from "./buildah.ts";
import type { DebianLock } from "./debian-lock.ts";
import { type LayoutContents, packLayout, readLayout, writeArchive } from "./layout.ts";
import { makeContext } from "./make-context.ts";
import type { Processor } from "./processor.ts";
import { imageSizes, type SizeRow } from "./sizes.ts";
import type { SourceState } from "./source-state.ts";

/** Where the image is published. */
export const REPOSITORY = "ghcr.io/kube-vhostuser/kube-vhostuser";

/** What to build. */
export interface ImageOptions {
  readonly processors: readonly Processor[];
  readonly state: SourceState;
  /** Pinned Debian packages; without them what the archive has now. */
  readonly lock?: DebianLock | undefined;
  /** Whole name of the image, with its tag. */
  readonly name: string;
  /** Directory of all that comes out: `layout`, `context`, archives and bills of materials. */
  readonly output: string;
  /** Files of earlier builds. */
  readonly downloads: string;
  /** buildah's storage, to keep; else one that is removed. */
  readonly storage?: string | undefined;
  /** Whether archives are written beside the layout; default true. */
  readonly archives?: boolean;
  /** Says what is being done. */
  readonly show?: (text: string) => void;
}

/** What was built. */
export interface BuiltImage extends LayoutContents {
  /** OCI image layout with the index of all processors' images. */
  readonly layout: string;
  /** Archives, first the one of all processors, and bills of materials. */
  readonly files: readonly string[];
  readonly sizes: readonly SizeRow[];
}

/** Builds the image for every processor from what is below dist/. */
export async function buildImage(options: ImageOptions): Promise<BuiltImage> {
  const { processors, state, name, output, show } = options;
  const scratch = await mkdtemp(join(tmpdir(), "kvu-image-"));
  try {
    const context = join(output, "context");
    const layout = join(output, "layout");
    await rm(layout, { recursive: true, force: true });
    await mkdir(context, { recursive: true });
    const files: string[] = [];
    for (const processor of processors) {
      show?.(`Debian's packages for ${processor.oci}`);
      files.push(await makeContext(processor, { ...options, context, scratch: join(scratch, "parts") }));
    }
    const storage = options.storage ?? join(scratch, "storage");
    await buildWithBuildah({ processors, state, context, storage, name, layout, show });
    const contents = await readLayout(layout);
    show?.("archives");
    if (options.archives !== false) files.unshift(...(await writeArchives(contents, { ...options, layout })));
    return { ...contents, layout, files, sizes: await imageSizes(contents, context) };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function writeArchives(
  contents: LayoutContents,
  { state, name, output, layout }: ImageOptions & { layout: string },
): Promise<readonly string[]> {
  const archive = (suffix: string) => join(output, `kube-vhostuser-${state.version}${suffix}.oci.tar`);
  const files = [archive("")];
  await packLayout(layout, archive(""));
  for (const image of contents.images) {
    const file = archive(`-${image.architecture}`);
    // Beside the layout, for its blobs are linked and not copied.
    const parts = join(output, "parts");
    await writeArchive({ layout, image, name, scratch: parts, file });
    await rm(parts, { recursive: true });
    files.push(file);
  }
  return files;
}
