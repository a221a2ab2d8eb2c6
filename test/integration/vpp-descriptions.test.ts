import { glob, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import * as z from "zod";
import type { Call, Shape } from "../../src/protocols/vpp-api/call.ts";
import type { Layout } from "../../src/protocols/vpp-api/fields.ts";
import * as messages from "../../src/protocols/vpp-api/messages.ts";
import * as routing from "../../src/protocols/vpp-api/routing-messages.ts";
import { answers, type Definition, parseFields, requests } from "../stand-in/vpp/wire-format.ts";

/** What a description says of a message: its checksum, and its fields as `<name> <kind>`. */
interface Described {
  readonly checksum: string;
  readonly fields: readonly string[];
}

/** Fields that every message has, or that its header has in place of a context. */
const HEADER = new Set(["_vl_msg_id", "client_index", "context"]);

const fieldSchema = z.tuple([z.string(), z.string()]).rest(z.unknown());
const messageSchema = z.array(z.unknown()).transform((parts) => ({
  name: z.string().parse(parts[0]),
  fields: z.array(fieldSchema).parse(parts.slice(1, -1)),
  crc: z.object({ crc: z.string() }).parse(parts.at(-1)).crc,
}));
const typeSchema = z
  .array(z.unknown())
  .transform((parts) => ({ name: z.string().parse(parts[0]), rest: parts.slice(1) }));
const descriptionSchema = z.object({
  types: z.array(typeSchema),
  unions: z.array(typeSchema).default([]),
  enums: z.array(typeSchema),
  enumflags: z.array(typeSchema).default([]),
  aliases: z.record(z.string(), z.object({ type: z.string(), length: z.number().optional() })),
  messages: z.array(messageSchema),
});
type Description = z.infer<typeof descriptionSchema>;

/** The descriptions that a build of VPP leaves beside its program, or an installation in share. */
async function readDescriptions(binary: string): Promise<ReadonlyMap<string, Described>> {
  const found = new Map<string, Described>();
  const root = join(dirname(binary), "..");
  for await (const file of glob(["CMakeFiles/**/*.api.json", "share/vpp/api/**/*.api.json"], { cwd: root })) {
    const description = descriptionSchema.parse(JSON.parse(await readFile(join(root, file), "utf8")));
    for (const { name, crc, fields } of description.messages) {
      found.set(name, {
        checksum: crc.replace(/^0x/, ""),
        fields: fields.flatMap((one) => describeField(one, description)),
      });
    }
  }
  return found;
}

function describeField(field: z.infer<typeof fieldSchema>, description: Description): string[] {
  const [type, name, length, countedBy] = field;
  if (HEADER.has(name)) return [];
  const kind = kindOf(type, description);
  if (type === "string") return [`${name} string[${length === 0 ? "" : length}]`];
  if (countedBy !== undefined && typeof countedBy === "string") return [`${name} (${kind})[]`];
  return [`${name} ${kind}${typeof length === "number" ? `[${length}]` : ""}`];
}

function kindOf(type: string, description: Description): string {
  const name = type.replace(/^vl_api_(.*)_t$/, "$1");
  const alias = description.aliases[name];
  if (alias !== undefined) {
    return `${kindOf(alias.type, description)}${alias.length === undefined ? "" : `[${alias.length}]`}`;
  }
  const choice = [...description.enums, ...description.enumflags].find((one) => one.name === name);
  if (choice !== undefined) return z.object({ enumtype: z.string() }).parse(choice.rest.at(-1)).enumtype;
  const union = description.unions.find((one) => one.name === name);
  if (union !== undefined) {
    const members = z.array(fieldSchema).parse(union.rest.filter(Array.isArray));
    const bytes = members.map(([of]) => Number(/^u8\[(\d+)\]$/.exec(kindOf(of, description))?.[1]));
    return `u8[${Math.max(...bytes)}]`;
  }
  const parts = description.types.find((one) => one.name === name);
  if (parts === undefined) return type;
  const fields = z.array(fieldSchema).parse(parts.rest.filter(Array.isArray));
  return fields
    .map(([of, , length, countedBy]) => {
      const kind = kindOf(of, description);
      if (typeof countedBy === "string") return `(${kind})[]`;
      return typeof length === "number" ? `${kind}[${length}]` : kind;
    })
    .join(" ");
}

/** The same of the stand-in's definitions, which were written apart from ours. */
function readStandIn(): ReadonlyMap<string, Described> {
  const kind = (word: string): string => {
    const [, group, inside] = /^(details|ways|part)\{(.*)\}$/.exec(word) ?? [];
    if (inside !== undefined) {
      const kinds = parseFields(inside)
        .map((one) => kind(one.kind))
        .join(" ");
      if (group === "part") return kinds;
      return group === "ways" ? `u8 (${kinds})[]` : `(${kinds})[]`;
    }
    return word
      .replace(/^flag$/, "bool")
      .replace(/^chars$/, "string[]")
      .replace(/^text(\d+)$/, "string[$1]")
      .replace(/^double$/, "f64")
      .replace(/^labels(\d+)$/, "u8 u32 u8 u8[$1]")
      .replace(/^raw2$/, "u8 u8")
      .replace(/^raw(\d+)$/, "u8[$1]")
      .replace(/^u32x4$/, "u32[4]");
  };
  const describe = ({ checksum, fields }: Definition): Described => ({
    checksum,
    fields: fields.filter(({ name }) => !HEADER.has(name)).map((one) => `${one.name} ${kind(one.kind)}`),
  });
  return new Map([...requests, ...answers].map(([name, definition]) => [name, describe(definition)]));
}

function describeOurs({ crc, layout }: Shape<Layout>): Described {
  const fields = Object.entries(layout).flatMap(([name, { wire }]) => {
    const [first = "", list] = wire;
    if (HEADER.has(name)) return [];
    return [`${name} ${list?.endsWith("[]") === true && first === "u32" ? list : wire.join(" ")}`];
  });
  return { checksum: crc, fields };
}

const isShape = (value: object): value is Shape<Layout> => "layout" in value;
const ours = Object.values({ ...messages, ...routing }).flatMap((value): Shape<Layout>[] => {
  if (typeof value !== "object") return [];
  if (isShape(value)) return [value];
  const { ask, answer } = value as Call<Layout, Layout>;
  return [ask, answer];
});

const binary = process.env.VPP_BIN;

describe(`our descriptions of messages and ${binary === undefined ? "the stand-in's" : "VPP's own"}`, () => {
  let theirs: ReadonlyMap<string, Described>;

  beforeAll(async () => {
    theirs = binary === undefined ? readStandIn() : await readDescriptions(binary);
  });

  it.each(ours.map((one) => [one.name, one] as const))("agree on %s", (name, shape) => {
    const described = theirs.get(name);
    // VPP writes a list's count as a field of its own.
    const fields = described?.fields.filter((field) => field !== "n_sw_ifs u32");
    expect({ checksum: described?.checksum, fields }).toEqual(describeOurs(shape));
  });
});
