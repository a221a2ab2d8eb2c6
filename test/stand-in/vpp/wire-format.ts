import { ANSWERS, REQUESTS, RETVAL_CHECKSUM } from "./definitions.ts";

/** Fields of a message by name. */
export type Fields = Readonly<Record<string, unknown>>;

/** A label of MPLS: u8, u32, u8, u8. */
const LABEL_BYTES = 7;

interface FieldDefinition {
  readonly kind: string;
  readonly name: string;
}

/** A message as its definition has it. */
export interface Definition {
  readonly name: string;
  readonly checksum: string;
  readonly fields: readonly FieldDefinition[];
}

/** Requests by name. */
export const requests: ReadonlyMap<string, Definition> = parse(REQUESTS);

/** Everything that VPP says, by name. */
export const answers: ReadonlyMap<string, Definition> = new Map([
  ...[...requests.keys()]
    .filter((name) => !name.endsWith("_dump"))
    .map((name) => [`${name}_reply`, retvalOnly(`${name}_reply`)] as const),
  ...parse(ANSWERS),
]);

/**
 * Reads a request's fields and insists on what VPP's own clients keep to.
 * @throws Error that says what is wrong
 */
export function readFields(definition: Definition, bytes: Buffer): Fields {
  let at = 0;
  const next = (size: number) => {
    if (at + size > bytes.length)
      throw new Error(`${definition.name} is ${at + size - bytes.length} bytes short`);
    at += size;
    return bytes.subarray(at - size, at);
  };
  const values = readAll(definition.fields, next);
  if (at !== bytes.length) throw new Error(`${definition.name} has ${bytes.length - at} bytes too many`);
  return values;
}

function readAll(fields: readonly FieldDefinition[], next: (size: number) => Buffer): Fields {
  return Object.fromEntries(
    fields.flatMap(({ kind, name }) => {
      const part = insideOf("part", kind);
      if (part !== undefined) return Object.entries(readAll(part, next));
      return [[name, readField(kind, name, next)]];
    }),
  );
}

/** The fields in the braces of a kind. */
function insideOf(word: string, kind: string): FieldDefinition[] | undefined {
  return kind.startsWith(`${word}{`) ? parseFields(kind.slice(word.length + 1, -1)) : undefined;
}

/** The bytes of a message's fields; what is not given is zero. */
export function printFields({ fields }: Pick<Definition, "fields">, values: Fields): Buffer {
  return Buffer.concat(
    fields.map(({ kind, name }) => {
      const part = insideOf("part", kind);
      return part === undefined ? printField(kind, values[name]) : printFields({ fields: part }, values);
    }),
  );
}

function readField(kind: string, name: string, next: (size: number) => Buffer): unknown {
  const [, word = "", count = ""] = /^([a-z]+)(\d*)/.exec(kind) ?? [];
  const ways = insideOf("ways", kind);
  if (ways !== undefined) return Array.from({ length: next(1).readUInt8() }, () => readAll(ways, next));
  switch (word) {
    case "u":
    case "i": {
      const [width, repeated] = kind.slice(1).split("x").map(Number);
      const size = (width ?? 0) / 8;
      if (repeated !== undefined)
        return Array.from({ length: repeated }, () => next(size).readUIntBE(0, size));
      if (size === 8) return next(8).readBigUInt64BE();
      return word === "u" ? next(size).readUIntBE(0, size) : next(size).readIntBE(0, size);
    }
    case "flag": {
      const value = next(1)[0];
      if (value !== 0 && value !== 1) throw new Error(`${name} is ${value}, which is neither true nor false`);
      return value === 1;
    }
    case "text": {
      const bytes = next(Number(count));
      const end = bytes.indexOf(0);
      if (end < 0) throw new Error(`${name} is not ended by a NUL`);
      if (bytes.subarray(end).some((byte) => byte !== 0)) throw new Error(`${name} continues after its NUL`);
      return bytes.toString("utf8", 0, end);
    }
    case "raw":
      return Buffer.from(next(Number(count)));
    case "labels":
      return Buffer.from(next(Number(count) * LABEL_BYTES));
    case "chars":
      return next(next(4).readUInt32BE()).toString("utf8");
    default:
      throw new TypeError(`no request has a field of kind ${kind}`);
  }
}

function printField(kind: string, value: unknown): Buffer {
  const [details, ways] = [insideOf("details", kind), insideOf("ways", kind)];
  const list = details ?? ways;
  if (list !== undefined) {
    const items = Array.isArray(value) ? (value as Fields[]) : [];
    const one = { name: "", checksum: "", fields: list };
    return Buffer.concat([
      uint(items.length, ways === undefined ? 4 : 1),
      ...items.map((item) => printFields(one, item)),
    ]);
  }
  const [, word = "", count = ""] = /^([a-z]+)(\d*)/.exec(kind) ?? [];
  switch (word) {
    case "u":
    case "i": {
      const [width = 0, repeated] = kind.slice(1).split("x").map(Number);
      if (repeated !== undefined)
        return Buffer.concat((value as number[]).map((one) => uint(one, width / 8)));
      if (width === 64)
        return Buffer.from(
          BigInt((value as bigint) ?? 0)
            .toString(16)
            .padStart(16, "0"),
          "hex",
        );
      return uint(Number(value ?? 0) >>> 0, width / 8);
    }
    case "flag":
      return uint(value === true ? 1 : 0, 1);
    case "text": {
      const bytes = Buffer.alloc(Number(count));
      bytes.write(String(value ?? ""), 0, Number(count) - 1);
      return bytes;
    }
    case "chars": {
      const bytes = Buffer.from(String(value ?? ""));
      return Buffer.concat([uint(bytes.length, 4), bytes]);
    }
    case "labels":
      return Buffer.alloc(Number(count) * LABEL_BYTES);
    case "double":
      return Buffer.alloc(8);
    case "raw":
      return Buffer.isBuffer(value) ? value : Buffer.alloc(Number(count));
    default:
      throw new TypeError(`no answer has a field of kind ${kind}`);
  }
}

function uint(value: number, size: number): Buffer {
  const bytes = Buffer.alloc(size);
  bytes.writeUIntBE(value, 0, size);
  return bytes;
}

function parse(text: string): ReadonlyMap<string, Definition> {
  const lines = text.trim().split("\n");
  return new Map(
    lines.map((line) => {
      const [, name = "", checksum = "", fields = ""] = /^(\S+)\s+([0-9a-f]{8})\s*(.*)$/.exec(line) ?? [];
      return [name, { name, checksum, fields: parseFields(fields) }];
    }),
  );
}

/** Commas inside braces do not part fields. */
export function parseFields(text: string): FieldDefinition[] {
  const parts: string[] = [];
  let depth = 0;
  let part = "";
  for (const letter of text) {
    if (letter === "{") depth += 1;
    if (letter === "}") depth -= 1;
    if (letter === "," && depth === 0) {
      parts.push(part);
      part = "";
    } else part += letter;
  }
  return [...parts, part]
    .map((one) => one.trim())
    .filter((one) => one !== "")
    .map((one) => ({
      kind: one.slice(0, one.lastIndexOf(" ")),
      name: one.slice(one.lastIndexOf(" ") + 1),
    }));
}

function retvalOnly(name: string): Definition {
  return { name, checksum: RETVAL_CHECKSUM, fields: [{ kind: "i32", name: "retval" }] };
}
