import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { configurationReference } from "../../../scripts/build/configuration-reference.ts";
import { SETTINGS_ANNOTATION } from "../../../src/sidecar/interface-settings.ts";
import { readManifests, theOnly } from "../../manifests/manifest.ts";
import { filesBelow, TOP } from "./document.ts";

const read = (file: string) => readFileSync(join(TOP, file), "utf8");
const manifest = JSON.parse(read("package.json")) as { readonly scripts: Readonly<Record<string, string>> };

/** The npm scripts, each with the text of the program that takes its flags. */
export const NPM_SCRIPTS: ReadonlyMap<string, string> = new Map(
  Object.entries(manifest.scripts).map(([name, command]) => {
    const [, task] = command.match(/bootstrap\.mjs ([\w-]+)/) ?? [];
    return [name, task === undefined ? command : read(`scripts/${task}.ts`)];
  }),
);

/** What `npm run bench -- --only=` takes. Read, for importing them brings half of the tests along. */
export const BENCH_SUITES: readonly string[] = filesBelow("test/bench/suites").flatMap((file) =>
  [...read(file).matchAll(/^ {2}name: "([\w-]+)",$/gm)].map(([, name = ""]) => name),
);

/** The programs in the images, each with the text of the file that takes its flags. vhostuserctl declares its own. */
export const PROGRAMS: ReadonlyMap<string, string> = new Map(
  filesBelow("src").flatMap((file) => {
    const [, name] = file.match(/^src\/(?:node-setup\/)?([\w-]+)\/main\.ts$/) ?? [];
    return name === undefined ? [] : [[name, read(file)]];
  }),
);

const { metadata, spec } = theOnly(
  readManifests(join(TOP, "deploy/manifests/kube-vhostuser.yaml")),
  "DaemonSet",
)["spec"].template;

/** What the DaemonSet's pods have. */
export const POD: {
  readonly labels: Readonly<Record<string, string>>;
  readonly containers: readonly string[];
} = {
  labels: metadata.labels,
  containers: [...spec.initContainers, ...spec.containers].map(({ name }: { name: string }) => name),
};

/** Every key of the daemon's configuration, written as in its reference. */
export const CONFIG_KEYS: readonly string[] = [
  ...configurationReference().matchAll(/^\| `([\w.[\]]+)` \|/gm),
].map(([, key = ""]) => key);

/** Names of series, those that Prometheus makes of a histogram included, from the files that declare metrics. */
export const SERIES: ReadonlySet<string> = new Set(
  filesBelow("src/observe")
    .filter((file) => /\/declared-[\w-]+\.ts$/.test(file))
    .flatMap((file) => [
      ...read(file).matchAll(/^ {2}((?:vhostuser|process|nodejs)_\w+): \{\s+type: "(\w+)"/gm),
    ])
    .flatMap(([, name = "", type]) =>
      type === "histogram" ? ["", "_bucket", "_sum", "_count"].map((end) => `${name}${end}`) : [name],
    ),
);

const files = ["src", "deploy", "scripts", "test"].flatMap(filesBelow);
const written = ["package.json", ...files]
  // Not the checks themselves, whose examples of faults are no names, nor what others have written.
  .filter((file) => !/^test\/(?:rules|fixtures)\/|\.(?:md|png|gz)$/.test(file))
  .map(read)
  .join("\n");
const words = new Set(written.match(/[\w.-]+(?:\/[\w.-]+)*/g)?.flatMap((word) => [word, ...word.split("/")]));

/** Names of the project's source files, without their directories. */
export const SOURCE_FILES: ReadonlySet<string> = new Set(files.map((file) => basename(file)));

/** Names that are others' and that no file of ours has. */
const FOREIGN: ReadonlySet<string> = new Set([
  "js-yaml",
  "kubernetes-models",
  "preStop",
  "puppeteer-core",
  "runStrategy",
  "stable-privacy",
]);

/** Whether a name (an error code, a key, a program, a link of a chain) is one that there is. */
export function isKnownWord(word: string): boolean {
  return FOREIGN.has(word) || words.has(word) || SOURCE_FILES.has(`${word}.test.ts`);
}

/** Whether a name with a slash (an annotation, a label, a resource) is one that there is. */
export function isKnownObjectKey(key: string): boolean {
  return key === SETTINGS_ANNOTATION || words.has(key);
}

/** Whether an environment variable is one that a program of ours reads or sets. */
export function isKnownVariable(name: string): boolean {
  return words.has(name) || written.includes(name);
}
