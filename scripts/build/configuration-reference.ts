import { z } from "zod";
import { daemonConfigSchema } from "../../src/config/schema.ts";

interface JsonSchema {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly JsonSchema[];
  readonly description?: string;
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
}

const INTRODUCTION = `# Configuration of the daemon

One YAML file, \`/etc/kube-vhostuser/config.yaml\` unless \`--config\` says otherwise. A key that is not listed here is
refused, and an error names the line and the key. \`deploy/config.yaml\` is a short example. This page is written
from the schema in \`src/config/schema.ts\` by \`npm run docs\`.

| key | value | default | meaning |
| --- | --- | --- | --- |
`;

/** The text of docs/configuration.md. */
export function configurationReference(): string {
  // Input side: a key with a default may be left out, and a mode is the text that the user writes.
  const schema = z.toJSONSchema(daemonConfigSchema, { io: "input" }) as JsonSchema;
  return `${INTRODUCTION}${rows(schema, "").join("\n")}\n`;
}

function rows(schema: JsonSchema, prefix: string): string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, property]) => {
    const key = `${prefix}${name}`;
    if (property.properties !== undefined) return rows(property, `${key}.`);
    if (property.items?.properties !== undefined) return rows(property.items, `${key}[].`);
    const isRequired = schema.required?.includes(name) === true;
    return [
      `| \`${key}\` | ${valueColumn(property)} | ${defaultColumn(property, isRequired)} | ${property.description ?? ""} |`,
    ];
  });
}

function valueColumn(schema: JsonSchema): string {
  const { type, const: constant, minimum, maximum, exclusiveMinimum } = schema;
  if (constant !== undefined) return `\`${String(constant)}\``;
  if (schema.anyOf !== undefined) return schema.anyOf.map(valueColumn).join(" or ");
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${String(value)}\``).join(", ");
  const low = minimum ?? (exclusiveMinimum === undefined ? undefined : `above ${exclusiveMinimum}`);
  const high = maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? undefined : maximum;
  const range = low === undefined ? "" : `, ${low}${high === undefined ? "" : ` to ${high}`}`;
  return `${type ?? "text"}${range}`;
}

function defaultColumn(schema: JsonSchema, isRequired: boolean): string {
  if (schema.default === undefined) return isRequired ? "must be given" : "none";
  return `\`${typeof schema.default === "string" ? schema.default : JSON.stringify(schema.default)}\``;
}
