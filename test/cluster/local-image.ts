import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { runProgram } from "../machine/run-program.ts";

/** An image to make. */
export interface LocalImage {
  /** With its tag, for example `localhost/pause:1`. */
  readonly name: string;
  /** Paths in the image, relative to its root, each with the program that is copied there. */
  readonly files: Readonly<Record<string, string>>;
  /** Symbolic links, each with its target. */
  readonly links?: Readonly<Record<string, string>>;
  readonly entrypoint: readonly string[];
}

/** The image of pods' sandboxes: a program that sleeps, Debian's busybox-static. */
export const PAUSE: LocalImage = {
  name: "localhost/pause:1",
  files: { busybox: "/bin/busybox" },
  entrypoint: ["/busybox", "sleep", "2147483647"],
};

/**
 * Writes an archive of an image of static programs below `directory`, and gives its path.
 * https://github.com/opencontainers/image-spec/blob/main/image-layout.md
 */
export async function writeImage(directory: string, image: LocalImage): Promise<string> {
  const { name, files, links = {}, entrypoint } = image;
  const [root, layout] = [join(directory, "root"), join(directory, "layout")];
  for (const [path, source] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await copyFile(source, join(root, path));
  }
  for (const [path, target] of Object.entries(links)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await symlink(target, join(root, path));
  }
  await mkdir(join(layout, "blobs/sha256"), { recursive: true });
  const layerFile = join(directory, "layer.tar");
  await runProgram("tar", ["-C", root, "-cf", layerFile, "."]);

  const blob = async (mediaType: string, content: Buffer | object) => {
    const bytes = Buffer.isBuffer(content) ? content : Buffer.from(JSON.stringify(content));
    const hash = createHash("sha256").update(bytes).digest("hex");
    await writeFile(join(layout, "blobs/sha256", hash), bytes);
    return { mediaType, digest: `sha256:${hash}`, size: bytes.length };
  };
  const type = (name: string) => `application/vnd.oci.image.${name}`;
  const layer = await blob(type("layer.v1.tar"), await readFile(layerFile));
  const config = await blob(type("config.v1+json"), {
    architecture: process.arch === "arm64" ? "arm64" : "amd64",
    os: "linux",
    config: { Entrypoint: entrypoint },
    rootfs: { type: "layers", diff_ids: [layer.digest] },
  });
  const manifest = await blob(type("manifest.v1+json"), {
    schemaVersion: 2,
    mediaType: type("manifest.v1+json"),
    config,
    layers: [layer],
  });
  const annotations = { "io.containerd.image.name": name };
  await writeFile(join(layout, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  await writeFile(
    join(layout, "index.json"),
    JSON.stringify({ schemaVersion: 2, manifests: [{ ...manifest, annotations }] }),
  );
  const archive = join(directory, "image.oci.tar");
  await runProgram("tar", ["-C", layout, "-cf", archive, "."]);
  return archive;
}
