import { readFile } from "node:fs/promises";
import { isMap, LineCounter, type Node, parseDocument } from "yaml";
import type { z } from "zod";
import { Failure } from "../failure/failure.ts";
import { UNIX_PATH_MAX_BYTES } from "../names/unix-path.ts";
import { type DaemonConfig, daemonConfigSchema } from "./schema.ts";

/** Longest that an allocation, an interface and the socket's name add to the root, with their slashes. */
const BELOW_ROOT_BYTES = "/".length + 16 + "/".length + 15 + "/vhost.sock".length;

/** Reads and checks the configuration file. @throws Failure `invalid-config` with line and key */
export async function loadConfig(file: string): Promise<DaemonConfig> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    throw new Failure({
      code: "invalid-config",
      what: `the configuration file cannot be read: ${String(error)}`,
      where: file,
      cause: error,
    });
  }
  return parseConfig(text, file);
}

/** Checks the text of a configuration file, frozen result. */
export function parseConfig(text: string, file: string): DaemonConfig {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  const [syntax] = document.errors;
  if (syntax !== undefined) {
    throw invalid(syntax.message, `${file}:${lines.linePos(syntax.pos[0]).line}`);
  }
  const parsed = daemonConfigSchema.safeParse(document.toJS());
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => {
      const path = keyPath(issue);
      const line = lineOf(document.contents, path, lines);
      return `line ${line}, key ${path.join(".") || "(top)"}: ${issueText(issue)}`;
    });
    throw invalid(problems.join("; "), file);
  }
  checkLengths(parsed.data, file);
  return Object.freeze(parsed.data);
}

/** For a key that does not belong there the issue names the map around it; the key itself is what helps. */
function keyPath(issue: z.core.$ZodIssue): PropertyKey[] {
  return issue.code === "unrecognized_keys" && issue.keys[0] !== undefined
    ? [...issue.path, issue.keys[0]]
    : [...issue.path];
}

function issueText(issue: z.core.$ZodIssue): string {
  return issue.code === "unrecognized_keys" ? "there is no such key" : issue.message;
}

function lineOf(contents: unknown, path: readonly PropertyKey[], lines: LineCounter): number {
  let node = contents as Node | null;
  let offset = node?.range?.[0] ?? 0;
  for (const key of path) {
    if (isMap(node)) {
      const pair = node.items.find((item) => String(item.key) === String(key));
      if (pair === undefined) break;
      offset = (pair.key as Node).range?.[0] ?? offset;
      node = pair.value as Node | null;
    } else if (node !== null && "items" in node && Array.isArray(node.items)) {
      node = (node.items[Number(key)] ?? null) as Node | null;
      offset = node?.range?.[0] ?? offset;
    } else break;
  }
  return lines.linePos(offset).line;
}

function checkLengths(config: DaemonConfig, file: string): void {
  const switchRoot = config.switchRoot ?? config.root;
  if (Buffer.byteLength(switchRoot) + BELOW_ROOT_BYTES > UNIX_PATH_MAX_BYTES) {
    throw invalid(
      `root ${switchRoot} is too long: sockets below it would pass ${UNIX_PATH_MAX_BYTES} bytes`,
      file,
    );
  }
  for (const pool of config.pools) {
    const bytes = Buffer.byteLength(`${config.podRoot}/${pool.name}`) + BELOW_ROOT_BYTES - 17;
    if (bytes > UNIX_PATH_MAX_BYTES) {
      throw invalid(`podRoot and pool name ${pool.name} together are too long for a socket path`, file);
    }
  }
}

function invalid(what: string, where: string): Failure {
  return new Failure({
    code: "invalid-config",
    what,
    where,
    fix: "see docs/configuration.md for every key",
  });
}
