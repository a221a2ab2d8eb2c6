import { z } from "zod";
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

The daemon reads the file once, when it starts. The chart has a checksum of it in the DaemonSet's pod template, and the
overlays one in the ConfigMap's name, so a change replaces the pods, one node after the other; after an edit of the ConfigMap
by hand do that with \`kubectl -n kube-vhostuser rollout restart daemonset/kube-vhostuser\`. VMs and pods keep their network
meanwhile ([upgrade.md](upgrade.md#the-daemon)). With a file that is wrong the daemon does not start, and the rollout stops at
the first node.

Running pods keep what they were allocated with: owner, group, mode, label, \`socketServer\`, and the switch, because their
ports are in it. Each allocation's record has all of it.

- *A pool that is removed*: kubelet gets no more devices of it. Its pods are served in the switch that their allocations
  recorded until the last of them is gone, and the daemon then closes its connection to that switch.
- *A pool that gets another switch* (\`database\` or \`apiSocket\`): new pods get their ports in the new switch, older ones
  keep theirs in the recorded one.
- *A switch whose socket moved*: where the recorded socket is gone when the daemon starts and the configured one is there,
  it counts as the same switch.
- *A switch that is gone for good*: of a pool that is not configured either, its pods' ports are left alone, and the log
  has an error with the pool's name.
- *A lower capacity*: devices that pods hold stay until they are freed.
- *Another resource name*: devices that pods hold under the former name are given to nobody else until they are freed.

The chart mounts the directories of the switches that its values name. For pods in a switch that they no longer name, keep
that one's directory in the value \`formerSwitchDirectories\` until the pods are gone: a daemon that does not see the
recorded socket takes the switch for gone.

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
    if (property.oneOf !== undefined) return rows(joined(property.oneOf), `${key}.`);
    if (property.items?.properties !== undefined) return rows(property.items, `${key}[].`);
    const isRequired = schema.required?.includes(name) === true;
    return [
      `| \`${key}\` | ${valueColumn(property)} | ${defaultColumn(property, isRequired)} | ${property.description ?? ""} |`,
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
