import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { z } from "zod";
import { describeThrown, systemCode } from "../failure/failure.ts";
import type { DirectorySync } from "./directory-sync.ts";
import { replaceFile } from "./replace-file.ts";

const envelopeSchema = z.object({ version: z.number().int().positive(), sum: z.string(), body: z.unknown() });

/** What a record file turned out to be; the cases need different acts, so they are never mixed up. */
export type RecordRead<Body> =
  | { readonly kind: "good"; readonly body: Body }
  | { readonly kind: "missing" }
  /** Cut off, bit-flipped or not of the expected shape. */
  | { readonly kind: "torn"; readonly reason: string }
  /** Written by a newer release: left alone. */
  | { readonly kind: "newer"; readonly version: number };

/**
 * Writes a record with its version and a checksum.
 * @param durable of its directory, where it must survive a power cut; a crash of all of userspace it always survives
 */
export async function writeRecord(
  path: string,
  version: number,
  body: object,
  durable?: DirectorySync,
): Promise<void> {
  const text = JSON.stringify({ version, sum: checksum(body), body }, undefined, 1);
  await replaceFile(path, `${text}\n`, { mode: 0o600, durable });
}

/** Reads a record that {@link writeRecord} wrote; throws only when the file cannot be read at all. */
export async function readRecord<Body>(
  path: string,
  version: number,
  schema: z.ZodType<Body>,
): Promise<RecordRead<Body>> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (systemCode(error) === "ENOENT") return { kind: "missing" };
    throw error;
  }
  try {
    const envelope = envelopeSchema.parse(JSON.parse(text));
    if (envelope.version > version) return { kind: "newer", version: envelope.version };
    if (checksum(envelope.body) !== envelope.sum) return { kind: "torn", reason: "its checksum is wrong" };
    return { kind: "good", body: schema.parse(envelope.body) };
  } catch (error) {
    return { kind: "torn", reason: describeThrown(error) };
  }
}

// JSON keeps the order of keys through parse and stringify, so the text of the body is canonical enough.
function checksum(body: unknown): string {
  return createHash("sha256").update(JSON.stringify(body)).digest("hex").slice(0, 32);
}
