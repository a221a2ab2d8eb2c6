import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";
import { parse } from "yaml";
import { clusterApiDefinitions } from "../stand-in/cluster-api/definitions.ts";
import { type Manifest, TOP } from "./manifest.ts";

const SCHEMAS = join(TOP, "test/fixtures/kubernetes");
/** Our definitions, which the chart installs. */
const OWN_DEFINITIONS = ["ipam", "cluster-api"].map((directory) =>
  join(TOP, "deploy/chart/kube-vhostuser/files", directory),
);
const OBJECT_META = "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

interface Schema {
  readonly [key: string]: unknown;
}

interface Published {
  readonly kinds: Readonly<Record<string, string>>;
  readonly $defs: Readonly<Record<string, Schema>>;
}

interface Definition {
  readonly spec: {
    readonly group: string;
    readonly names: { readonly kind: string };
    readonly versions: readonly { readonly name: string; readonly schema: { openAPIV3Schema: Schema } }[];
  };
}

/** Says what is wrong with a manifest; nothing wrong is an empty list. */
export type CheckManifest = (manifest: Manifest) => readonly string[];

/**
 * Checks manifests as an API server with strict field validation does: by its own schemas of Kubernetes' kinds
 * (scripts/kubernetes-schemas.ts), by the definitions below test/fixtures/kubernetes/crds of others', and by our own. A
 * field that a schema does not have is an error, and so is a kind without a schema.
 */
export function openManifestCheck(): CheckManifest {
  const published: Published = JSON.parse(readFileSync(join(SCHEMAS, "schemas.json"), "utf8"));
  const $defs = Object.fromEntries(
    Object.entries(published.$defs).map(([name, schema]) => [name, closed(schema)]),
  );
  const kinds = new Map<string, Schema>();
  for (const [kind, name] of Object.entries(published.kinds)) kinds.set(kind, { $ref: `#/$defs/${name}` });
  const files = [...definitionFiles(join(SCHEMAS, "crds")), ...definitionFiles()];
  const written = files.map((file): Definition => parse(readFileSync(file, "utf8")));
  for (const { spec } of [...written, ...(clusterApiDefinitions("v1beta2") as readonly Definition[])]) {
    for (const { name, schema } of spec.versions) {
      kinds.set(`${spec.group}/${name} ${spec.names.kind}`, ofCustomKind(schema.openAPIV3Schema));
    }
  }
  // Formats are about sizes of numbers and about times; the API server says more of them than a schema can.
  const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false, inlineRefs: false });
  const compiled = new Map<string, ValidateFunction>();
  return (manifest) => {
    const kind = `${manifest.apiVersion} ${manifest.kind}`;
    const schema = kinds.get(kind);
    if (schema === undefined) return [`no schema for ${kind}`];
    const validate = compiled.get(kind) ?? ajv.compile({ ...schema, $defs });
    compiled.set(kind, validate);
    if (validate(manifest)) return [];
    return (validate.errors ?? []).map(describe);
  };
}

/** Definitions of custom resources in directories; default our own. */
export function definitionFiles(...directories: readonly string[]): string[] {
  const all = directories.length === 0 ? OWN_DEFINITIONS : directories;
  return all.flatMap((directory) => readdirSync(directory).map((file) => join(directory, file)));
}

function describe({ instancePath, message = "", params }: ErrorObject): string {
  const field = (params as { readonly additionalProperty?: string }).additionalProperty;
  return `${instancePath || "/"} ${field === undefined ? message : `has an unknown field ${field}`}`;
}

/** The same schema, which takes no field that it does not name. */
function closed(schema: Schema): Schema {
  const entries = Object.entries(schema).map(([key, value]) => [key, closedPart(key, value)]);
  const copy: Schema = Object.fromEntries(entries);
  if (schema["x-kubernetes-int-or-string"] === true) return { ...copy, type: ["integer", "string"] };
  if (schema["nullable"] === true) return { ...copy, type: [schema["type"], "null"] };
  const isOpen =
    schema["properties"] === undefined ||
    schema["additionalProperties"] !== undefined ||
    schema["x-kubernetes-preserve-unknown-fields"] === true;
  return isOpen ? copy : { ...copy, additionalProperties: false };
}

function closedPart(key: string, value: unknown): unknown {
  if (key === "properties") {
    const properties = Object.entries(value as Readonly<Record<string, Schema>>);
    return Object.fromEntries(properties.map(([name, one]) => [name, closed(one)]));
  }
  if (key === "items" || key === "additionalProperties") {
    return typeof value === "object" ? closed(value as Schema) : value;
  }
  return value;
}

/** A definition says nothing of what all objects have. */
function ofCustomKind(schema: Schema): Schema {
  return closed({
    ...schema,
    properties: {
      ...(schema["properties"] as Schema),
      apiVersion: { type: "string" },
      kind: { type: "string" },
      metadata: { $ref: OBJECT_META },
    },
  });
}
