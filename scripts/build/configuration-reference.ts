import { z } from "zod";
import { takesEffectAtOnce } from "../../src/config/reload.ts";
import { daemonConfigSchema } from "../../src/config/schema.ts";

interface JsonSchema {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly JsonSchema[];
  /** Maps of which one key, with one value in each, tells which one it is. */
  readonly oneOf?: readonly JsonSchema[];
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

The daemon looks at the file while it runs (in a ConfigMap, kubelet carries a change there within a minute or two).
A change of a key counts

- *at once*: kubelet's registration and the pods stay;
- *after a restart* of the daemon's process: the log names the key as waiting, and the old value stays until then. A
  pool that is new, and so has no pods, gets the switch that it names at once;
- *with the mount step*: a new pod of the DaemonSet runs it as its init container, before the daemon. On a mount that
  is there already it only sets the bounds anew, so running pods keep what they have.

Pods keep the switch that they have, over restarts too, for their ports are in it: each allocation's record names it.
A pool that is removed is looked after until the last of its devices is freed, unless its switch's socket is gone too
when the daemon starts. One that gets another switch (another \`database\` or \`apiSocket\`) stays with the old one for as
long, new pods included, and the log says so; but where the old socket does not exist any more when the daemon starts
and the new one does, it is taken for the same switch that moved. Owner, group, mode, label and \`socketServer\` of a pod are those of its Allocate for as long as it lives.

A file that is wrong, by itself or together with values that wait for a restart, is reported and not taken.

| key | value | default | a change counts | meaning |
| --- | --- | --- | --- | --- |
`;

/** What the mount step reads (src/node-setup/mount-root); the daemon's own restart does not change the mount. */
const MOUNT_STEP_KEYS: ReadonlySet<string> = new Set([
  "root",
  "rootFileSystem.sizeMiB",
  "rootFileSystem.inodes",
]);

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
    if (property.oneOf !== undefined) return rows(joined(property.oneOf), `${key}.`);
    if (property.items?.properties !== undefined) return rows(property.items, `${key}[].`);
    const isRequired = schema.required?.includes(name) === true;
    return [
      `| \`${key}\` | ${valueColumn(property)} | ${defaultColumn(property, isRequired)} | ${changeColumn(key)} | ${property.description ?? ""} |`,
    ];
  });
}

/** One map with the keys of all; the meaning of a key that not all have begins with the ones that do. */
function joined(kinds: readonly JsonSchema[]): JsonSchema {
  const names = new Set(kinds.flatMap(({ properties }) => Object.keys(properties ?? {})));
  const properties = [...names].map((name) => {
    const having = kinds.filter((kind) => kind.properties?.[name] !== undefined);
    const all = having.flatMap((kind) => kind.properties?.[name] ?? []);
    const [first] = all;
    if (all.every((one) => one.const !== undefined)) {
      return [name, { ...first, const: undefined, enum: all.map((one) => one.const) }] as const;
    }
    if (having.length === kinds.length) return [name, first ?? {}] as const;
    const of = having.map(({ properties }) => `\`${String(properties?.["type"]?.const)}\``).join(", ");
    return [name, { ...first, description: `Of ${of}: ${first?.description ?? ""}` }] as const;
  });
  const required = [...names].filter((name) => kinds.every((kind) => kind.required?.includes(name)));
  return { properties: Object.fromEntries(properties), required };
}

function changeColumn(key: string): string {
  if (MOUNT_STEP_KEYS.has(key)) return "with the mount step";
  return takesEffectAtOnce(key) ? "at once" : "after a restart";
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
