import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { z } from "zod";
import { describeThrown, systemCode } from "../failure/failure.ts";
import { type ReplaceOptions, replaceFile } from "./replace-file.ts";

const envelopeSchema = z.object({ version: z.number().int().positive(), sum: z.string(), body: z.unknown() });

/** A body of one version as one of the next. */
export type Migration = (body: Readonly<Record<string, unknown>>) => Readonly<Record<string, unknown>>;

/** How records of one kind are read and written, over all releases; docs/upgrade.md has the rule. */
export interface RecordFormat<Body> {
  /** Version of the shape that `schema` describes, the newest that this release reads. */
  readonly version: number;
  /** Version that is written, in that shape: one that the release before this one reads. */
  readonly written: number;
  readonly schema: z.ZodType<Body>;
  /** The first one is from version 1 to 2; one for each version before `version`. */
  readonly migrations: readonly Migration[];
}

/** What a record file turned out to be; the cases need different acts, so they are never mixed up. */
export type RecordRead<Body> =
  | { readonly kind: "good"; readonly body: Body }
  | { readonly kind: "missing" }
  /** Cut off, bit-flipped, or not a record at all. */
  | { readonly kind: "torn"; readonly reason: string }
  /** Written by another release, newer than this one, that meant something else: left alone. */
  | { readonly kind: "foreign"; readonly reason: string; readonly body: unknown };

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

/** Reads a record that {@link writeRecord} wrote in any release; throws only when the file cannot be read at all. */
export async function readRecord<Body>(path: string, format: RecordFormat<Body>): Promise<RecordRead<Body>> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (systemCode(error) === "ENOENT") return { kind: "missing" };
    throw error;
  }
  let envelope: z.infer<typeof envelopeSchema>;
  try {
    envelope = envelopeSchema.parse(JSON.parse(text));
  } catch (error) {
    return { kind: "torn", reason: describeThrown(error) };
  }
  const { version, sum, body } = envelope;
  // How a newer release takes its checksum is not known.
  if (version > format.version) {
    const reason = `it is of a newer release: version ${version}, and this one reads ${format.version}`;
    return { kind: "foreign", reason, body };
  }
  if (checksum(body) !== sum) return { kind: "torn", reason: "its checksum is wrong" };
  try {
    return { kind: "good", body: format.schema.parse(migrate(body, version, format)) };
  } catch (error) {
    const reason = `it is whole, and says what this release does not understand: ${describeThrown(error)}`;
    return { kind: "foreign", reason, body };
  }
}

const bodySchema = z.record(z.string(), z.unknown());

function migrate(body: unknown, version: number, { migrations }: RecordFormat<unknown>): unknown {
  return migrations.slice(version - 1).reduce((older, step) => step(older), bodySchema.parse(body));
}

// JSON keeps the order of keys through parse and stringify, so the text of the body is canonical enough.
function checksum(body: unknown): string {
  return createHash("sha256").update(JSON.stringify(body)).digest("hex").slice(0, 32);
}
