import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

/** The project's own directory. */
export const TOP = resolve(import.meta.dirname, "../../..");

/** A piece of code in a document. */
export interface CodeBlock {
  /** What stands behind the fence; empty for none, and for an indented block. */
  readonly language: string;
  readonly text: string;
}

/** A Markdown file taken apart as far as the checks need it. */
export interface Document {
  /** Relative to the project. */
  readonly file: string;
  readonly text: string;
  /** Of every heading, as GitHub makes them. */
  readonly anchors: ReadonlySet<string>;
  /** Of links and images, outside code. */
  readonly targets: readonly string[];
  readonly blocks: readonly CodeBlock[];
  /** Code in the running text and in tables. */
  readonly spans: readonly string[];
}

const FENCE = /^( *)(```+)([\w-]*)\n(.*?)^\1\2 *$/gms;
// An indented block stands by itself; deeper lines of a list are not indented by four from the margin.
const INDENTED = /(?<=\n\n) {4}\S.*\n?(?: {4}.*\n?|\n(?= {4}))*/g;

/** Takes the text of a Markdown file apart. */
export function parseDocument(file: string, text: string): Document {
  const blocks: CodeBlock[] = [];
  const withoutFences = text.replaceAll(FENCE, (_, indent: string, __, language: string, body: string) => {
    blocks.push({ language, text: body.replaceAll(new RegExp(`^${indent}`, "gm"), "") });
    return "";
  });
  const prose = withoutFences.replaceAll(INDENTED, (body) => {
    blocks.push({ language: "", text: body.replaceAll(/^ {4}/gm, "") });
    return "\n";
  });
  const spans = [...prose.matchAll(/(`+)(.+?)\1/gs)].map(([, , code = ""]) => code.replaceAll(/\s+/g, " "));
  const words = prose.replaceAll(/(`+)(.+?)\1/gs, "");
  const targets = [
    ...words.matchAll(/\]\(\s*([^)\s]+)/g),
    ...words.matchAll(/\b(?:src|srcset|href)="([^"\s]+)/g),
    ...words.matchAll(/<(https?:[^>]+)>/g),
  ].map(([, target = ""]) => target);
  return { file, text, anchors: anchorsOf(prose), targets, blocks, spans };
}

/** GitHub's rule: lower case, no punctuation, a hyphen for each blank, a number for a repeated heading. */
function anchorsOf(prose: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading = ""] of prose.matchAll(/^#{1,6} +(.+?) *$/gm)) {
    const plain = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase();
    const anchor = plain.replaceAll(/[^\p{L}\p{N}_ -]/gu, "").replaceAll(" ", "-");
    let unique = anchor;
    for (let count = 1; anchors.has(unique); count += 1) unique = `${anchor}-${count}`;
    anchors.add(unique);
  }
  return anchors;
}

const ELSEWHERE: ReadonlySet<string> = new Set(["node_modules", "dist", ".git"]);

/** Every Markdown file of the project. */
export function projectDocuments(): Document[] {
  return filesBelow("")
    .filter((file) => file.endsWith(".md"))
    .map((file) => parseDocument(file, readFileSync(join(TOP, file), "utf8")));
}

/** The files below a directory of the project, relative to the project. */
export function filesBelow(directory: string): string[] {
  return readdirSync(join(TOP, directory), { withFileTypes: true }).flatMap((entry) => {
    const file = join(directory, entry.name);
    if (entry.isFile()) return [file];
    return entry.isDirectory() && !ELSEWHERE.has(entry.name) ? filesBelow(file) : [];
  });
}
