import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { LayoutContents } from "./layout.ts";
import { PARTS } from "./make-context.ts";

/** Sizes of an image or of one of its layers, in bytes. */
export interface SizeRow {
  readonly what: string;
  /** As a registry keeps it. */
  readonly packed: number;
  /** As a node does. */
  readonly unpacked: number;
}

/** The sizes of each image's layers and of the whole. */
export async function imageSizes(contents: LayoutContents, context: string): Promise<readonly SizeRow[]> {
  const rows: SizeRow[] = [];
  for (const { architecture, layers } of contents.images) {
    const parts = await Promise.all(
      PARTS.map(async (part, index) => ({
        what: `${architecture} ${part}`,
        packed: layers[index]?.size ?? 0,
        unpacked: await treeSize(join(context, architecture, part)),
      })),
    );
    const sum = (key: "packed" | "unpacked") => parts.reduce((total, row) => total + row[key], 0);
    rows.push(...parts, { what: `${architecture} image`, packed: sum("packed"), unpacked: sum("unpacked") });
  }
  return rows;
}

/** The rows as a table for people. */
export function sizeTable(rows: readonly SizeRow[]): string {
  const mebibytes = (bytes: number) => `${(bytes / 1024 / 1024).toFixed(1)} MiB`.padStart(10);
  return rows
    .map(({ what, packed, unpacked }) => `${what.padEnd(16)}${mebibytes(packed)}${mebibytes(unpacked)}`)
    .join("\n");
}

async function treeSize(directory: string): Promise<number> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const sizes = entries
    .filter((entry) => entry.isFile())
    .map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).size);
  return (await Promise.all(sizes)).reduce((total, size) => total + size, 0);
}
