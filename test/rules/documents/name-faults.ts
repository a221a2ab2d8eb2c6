import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Document, TOP } from "./document.ts";
import {
  CONFIG_KEYS,
  isKnownObjectKey,
  isKnownVariable,
  isKnownWord,
  SERIES,
  SOURCE_FILES,
} from "./known-names.ts";

/** First parts of configuration keys that have others below them. */
const SECTIONS: ReadonlySet<string> = new Set(
  CONFIG_KEYS.flatMap((key) => key.split(".").slice(0, -1)).flatMap((part) => [part, part.replace("[]", "")]),
);

/** Names in a document that nothing of the project has: keys, metrics, codes, annotations, variables, files. */
export function nameFaults({ text, blocks, spans }: Document): string[] {
  const code = [...spans, ...blocks.map((block) => block.text)];
  return [
    ...wrong(matches(text, /\b(?:vhostuser|process|nodejs)_[a-z0-9_]+/g), isSeries, "metric"),
    ...wrong(spans.flatMap(keyOf), isConfigKey, "configuration key"),
    ...wrong(spans.flatMap(camelCased), isKnownWord, "key or function"),
    ...wrong(
      spans.filter((span) => /^[a-z][a-z\d]*(?:-[a-z\d]+)+$/.test(span)),
      isKnownWord,
      "code or name",
    ),
    ...wrong(
      matches(text, /(?<![\w./-])(?:k8s\.v1\.cni\.cncf\.io|kubevirt\.io)\/[\w-]+/g),
      isKnownObjectKey,
      "key",
    ),
    ...wrong(
      spans.filter((span) => /^vhostuser\/[\w-]+$/.test(span)),
      isKnownObjectKey,
      "annotation or resource",
    ),
    ...wrong(matches(text, /\b(?:KUBE_)?VHOSTUSER_[A-Z_]+/g), isKnownVariable, "variable"),
    ...wrong(
      spans.filter((span) => /^[\w-]+(?:\.test)?\.ts$/.test(span)),
      (name) => SOURCE_FILES.has(name),
      "source file",
    ),
    ...wrong(code.flatMap(pathsIn), (path) => existsSync(join(TOP, path)), "file"),
  ];
}

function matches(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map(([match]) => match);
}

function wrong(names: readonly string[], isRight: (name: string) => boolean, what: string): string[] {
  return [...new Set(names)]
    .filter((name) => !isRight(name))
    .map((name) => `${name}: there is no such ${what}`);
}

/** `vhostuser_vpp_` and the like stand for a family. */
function isSeries(name: string): boolean {
  return SERIES.has(name) || (name.endsWith("_") && [...SERIES].some((one) => one.startsWith(name)));
}

/** The key in `observe.address: 0.0.0.0`, where its first part is a section of the configuration. */
function keyOf(span: string): string[] {
  const [, key] = span.match(/^([a-z]\w*(?:\[\])?(?:\.[a-z]\w*(?:\[\])?)+)(?::.*)?$/i) ?? [];
  // `events.k8s.io` is a group of the API.
  return key !== undefined && SECTIONS.has(key.split(".")[0] ?? "") && !key.endsWith(".io") ? [key] : [];
}

/** `switchRoot`, also in `switchRoot: /a`. What ends with a lone capital is a pattern: `parseX`. */
function camelCased(span: string): string[] {
  return span.match(/^[a-z]+(?:[A-Z][a-z\d]+)+(?=$|:| )/) ?? [];
}

/** Keys may be told from a pool or a switch on, and without the brackets of a list. */
function isConfigKey(name: string): boolean {
  return CONFIG_KEYS.some((key) => {
    const plain = key.replaceAll("[]", "");
    const asked = name.replaceAll("[]", "");
    return plain === asked || plain.endsWith(`.${asked}`) || plain.startsWith(`${asked}.`);
  });
}

function pathsIn(code: string): string[] {
  const paths = code.matchAll(
    /(?<![\w./<>-])((?:src|test|scripts|deploy|docs)\/[\w./-]*[\w/])(?![\w<>*{$[])/g,
  );
  return [...paths].map(([, path = ""]) => path);
}
