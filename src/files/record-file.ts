import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { z } from "zod";
import { describeThrown, Failure, systemCode } from "../failure/failure.ts";
import { type ReplaceOptions, replaceFile } from "./replace-file.ts";

const envelopeSchema = z.object({ version: z.number().int().positive(), sum: z.string(), body: z.unknown() });

/** How records of one kind are read and written; docs/upgrade.md has the rules. */
export interface RecordFormat<Body> {
  /** The newest version that this release reads, and the one that it writes. */
  readonly version: number;
  readonly schema: z.ZodType<Body>;
}

/** What a record file turned out to be. */
export type RecordRead<Body> =
  | { readonly kind: "good"; readonly body: Body }
  | { readonly kind: "missing" }
  /** Cut off, bit-flipped, or not a record at all. */
  | { readonly kind: "damaged"; readonly reason: string };

/**
 * Writes a record with its version and a checksum.
 * @param options `durable` of its directory, where it must survive a power cut; a crash of all of userspace it always
 *   survives
 */
export async function writeRecord(
  path: string,
  version: number,
  body: object,
  options: Pick<ReplaceOptions, "durable" | "leftBehind"> = {},
): Promise<void> {
  const text = JSON.stringify({ version, sum: checksum(body), body }, undefined, 1);
  await replaceFile(path, `${text}\n`, { ...options, mode: 0o600 });
}

/**
 * Reads a record that {@link writeRecord} wrote.
 * @throws Failure `record-unreadable` for a record of a newer version, and what the system says where the file cannot be
 *   read at all
 */
export async function readRecord<Body>(path: string, format: RecordFormat<Body>): Promise<RecordRead<Body>> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (systemCode(error) === "ENOENT") return { kind: "missing" };
    throw error;
  }
  try {
    const { version, sum, body } = envelopeSchema.parse(JSON.parse(text));
    // How a newer release computes its checksum is not known.
    if (version > format.version) throw newerRecord(path, version, format.version);
    if (checksum(body) !== sum) return { kind: "damaged", reason: "its checksum is wrong" };
    return { kind: "good", body: format.schema.parse(body) };
  } catch (error) {
    if (error instanceof Failure) throw error;
    return { kind: "damaged", reason: describeThrown(error) };
  }
}

function newerRecord(path: string, found: number, known: number): Failure {
  return new Failure({
    code: "record-unreadable",
    what: `the record has version ${found}, and this release reads versions up to ${known}`,
    where: path,
    fix: "run the newer release again; to go back, drain the node, stop the daemon and remove the records directory",
  });
}

// JSON keeps the order of keys through parse and stringify, so the text of the body is canonical enough.
function checksum(body: unknown): string {
  return createHash("sha256").update(JSON.stringify(body)).digest("hex").slice(0, 32);
}
