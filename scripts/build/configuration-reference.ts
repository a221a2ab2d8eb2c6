import * as z from "zod";
import { daemonConfigSchema } from "../../src/config/schema.ts";

interface JsonSchema {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly JsonSchema[];
  /** Maps of which one key, with one value in each, says which one it is. */
  readonly oneOf?: readonly JsonSchema[];
  readonly description?: string;
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  /** Of a map by name. */
  readonly additionalProperties?: JsonSchema | boolean;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
}

const INTRODUCTION = `# Configuration of the daemon

The daemon reads one YAML file, \`/etc/kube-vhostuser/config.yaml\` unless \`--config\` names another. Unknown keys are refused, and
errors name the line and the key. \`deploy/config.yaml\` is a short example. This page is generated from the schema in
\`src/config/schema.ts\` by \`npm run docs\`.

The daemon reads the file once, when it starts. A change replaces its pods node by node: the chart puts a checksum of the
configuration into the DaemonSet's pod template, and the overlays put one into the ConfigMap's name. If you edit the ConfigMap
by hand, run \`kubectl -n kube-vhostuser rollout restart daemonset/kube-vhostuser\`. VMs and pods keep their network meanwhile
([upgrade.md](upgrade.md#the-daemon)). With a wrong file the daemon does not start, and the rollout stops at the first node.

Running pods keep what they were allocated with: owner, group, mode, label, \`socketServer\` and the switch.

| change | effect |
| --- | --- |
| a pool is removed | kubelet gets no more devices of it; the daemon serves its pods in their switch until the last one is gone. If that switch is gone too, their ports are left alone, and the log has an error |
| a pool gets another switch (\`database\` or \`apiSocket\`) | new pods get ports there, older pods keep theirs |
| a switch's socket is moved | if the old path is missing when the daemon starts and the new one exists, it is the same switch |
| the capacity is reduced | devices that pods hold remain until they are freed |
| the resource is renamed | devices that pods hold under the old name are not given to other pods until they are freed |

The chart mounts the directories of the switches that its values name. While pods still use a switch that the values no longer
name, keep its directory in the value \`formerSwitchDirectories\`: if the daemon does not see the recorded socket, it considers the
switch gone.

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
    const isRequired = schema.required?.includes(name) === true;
    const row = `| \`${key}\` | ${valueColumn(property)} | ${defaultColumn(property, isRequired)} | ${property.description ?? ""} |`;
    const { additionalProperties: named } = property;
    return [row, ...(typeof named === "object" ? rows(named, `${key}.<name>.`) : [])];
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
  const high = maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? undefined : maximum;
  const low = exclusiveMinimum === undefined ? undefined : `, above ${exclusiveMinimum}`;
  const from = minimum === undefined ? low : `, ${high === undefined ? "at least " : ""}${minimum}`;
  const name = { object: "map", array: "list" }[type ?? ""] ?? type ?? "text";
  return `${name}${from ?? ""}${high === undefined ? "" : ` to ${high}`}`;
}

function defaultColumn(schema: JsonSchema, isRequired: boolean): string {
  if (schema.default === undefined) return isRequired ? "must be given" : "none";
  return `\`${typeof schema.default === "string" ? schema.default : JSON.stringify(schema.default)}\``;
}
