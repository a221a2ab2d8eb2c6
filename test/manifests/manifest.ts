import { readdirSync, readFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { parseAllDocuments } from "yaml";

/** The project's top directory. */
export const TOP = resolve(import.meta.dirname, "../..");
/** What clusters are given. */
export const DEPLOY = join(TOP, "deploy");

/** One object of a manifest. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  // biome-ignore lint/suspicious/noExplicitAny: a manifest is what its kind says
  readonly [key: string]: any;
}

/** All objects of a YAML text. @throws Error for invalid YAML, duplicate keys included */
export function parseManifests(text: string, where: string): Manifest[] {
  return parseAllDocuments(text, { uniqueKeys: true }).flatMap((document) => {
    const [error] = document.errors;
    if (error !== undefined) throw new Error(`${where}: ${error.message}`);
    const manifest: Manifest | null = document.toJS();
    return manifest === null ? [] : [manifest];
  });
}

/** Files of manifests below a directory of deploy/, relative to it: no chart or values for it, no kustomization, no configuration of the daemon, and no metadata for clusterctl. */
export function manifestFiles(directory = DEPLOY): string[] {
  return readdirSync(directory, { recursive: true, encoding: "utf8" })
    .filter(
      (file) => /\.yaml$/.test(file) && !/(^|\/)(kustomization|config|values|metadata)\.yaml$/.test(file),
    )
    .map((file) => join(directory, file))
    .filter((file) => !relative(DEPLOY, file).startsWith("chart/"))
    .sort();
}

/** All objects of a file. */
export function readManifests(file: string): Manifest[] {
  return parseManifests(readFileSync(file, "utf8"), relative(TOP, file));
}

/** The one object of a kind. @throws Error where it is missing or not the only one */
export function theOnly(manifests: readonly Manifest[], kind: string): Manifest {
  const [first, ...more] = manifests.filter((one) => one.kind === kind);
  if (first === undefined || more.length > 0) throw new Error(`there is not exactly one ${kind}`);
  return first;
}
