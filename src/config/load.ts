import { readFile } from "node:fs/promises";
import { type Document, isMap, LineCounter, type Node, parseDocument } from "yaml";
import type { z } from "zod";
import { describeThrown, Failure } from "../failure/failure.ts";
import { UNIX_PATH_MAX_BYTES } from "../names/unix-path.ts";
import { type DaemonConfig, daemonConfigSchema, misplacedSockets, takenTwice } from "./schema.ts";

const ALLOCATION_BYTES = "/0123456789abcdef".length;
const SOCKET_BYTES = "/vhost.sock".length;
/** Longest interface name (CNI_IFNAME). */
const INTERFACE_BYTES = 15;
/** What a device id has beside its pool's name. */
const DEVICE_NUMBER_BYTES = "-00000".length;

/**
 * Reads and checks the configuration file.
 * @param node this node's name, for a file that serves every node and so names none
 * @throws Failure `invalid-config` with line and key
 */
export async function loadConfig(file: string, node?: string): Promise<DaemonConfig> {
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
  return parseConfig(text, file, node);
}

/** Checks the text of a configuration file, frozen result. */
export function parseConfig(text: string, file: string, node?: string): DaemonConfig {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  const [syntax] = document.errors;
  if (syntax !== undefined) {
    throw invalid(syntax.message, `${file}:${lines.linePos(syntax.pos[0]).line}`);
  }
  if (node !== undefined && isMap(document.contents) && !document.has("node")) document.set("node", node);
  const parsed = daemonConfigSchema.safeParse(plainValue(document, file));
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => {
      const path = keyPath(issue);
      const line = lineOf(document.contents, path, lines);
      return `line ${line}, key ${path.join(".") || "(top)"}: ${issueText(issue)}`;
    });
    throw invalid(problems.join("; "), file);
  }
  checkPathLengths(parsed.data, file);
  return Object.freeze(parsed.data);
}

/** @throws Failure `invalid-config` for an alias of nothing, or aliases that make a small text a huge value */
function plainValue(document: Document, file: string): unknown {
  try {
    return document.toJS();
  } catch (error) {
    throw invalid(describeThrown(error), file);
  }
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

/**
 * Checks what keys of one configuration demand of each other, for one that was joined from two valid ones.
 * @throws Failure `invalid-config` with the key
 */
export function checkJoined(config: DaemonConfig, file: string): void {
  const conflicts = [...takenTwice(config), ...misplacedSockets(config)].map(
    ({ path, message }) => `key ${path.join(".")}: ${message}`,
  );
  if (conflicts.length > 0) {
    throw invalid(`with values that stay until a restart, ${conflicts.join("; ")}`, file);
  }
  checkPathLengths(config, file);
}

/** Checks that every socket below the configured directories has a path that the kernel takes. @throws Failure `invalid-config` */
function checkPathLengths(config: DaemonConfig, file: string): void {
  const switchRoot = config.switchRoot ?? config.root;
  for (const { name } of config.pools) {
    // A directory in an allocation is named after an interface or a device.
    const inAllocation =
      `/`.length + Math.max(INTERFACE_BYTES, name.length + DEVICE_NUMBER_BYTES) + SOCKET_BYTES;
    const lengths = {
      [config.switchRoot === undefined ? "root" : "switchRoot"]:
        Buffer.byteLength(switchRoot) + ALLOCATION_BYTES + inAllocation,
      podRoot: Buffer.byteLength(`${config.podRoot}/${name}`) + inAllocation,
    };
    for (const [key, bytes] of Object.entries(lengths)) {
      if (bytes <= UNIX_PATH_MAX_BYTES) continue;
      throw invalid(
        `with ${key} and pool ${name} a socket's path would have ${bytes} bytes, ${UNIX_PATH_MAX_BYTES} are allowed`,
        file,
      );
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
