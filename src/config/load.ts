// Reads the configuration file; errors name line and key.
import { readFile } from "node:fs/promises";
import { type Document, isMap, LineCounter, type Node, parseDocument } from "yaml";
import * as z from "zod";
import { describeThrown, Failure } from "../failure/failure.ts";
import { UNIX_PATH_MAX_BYTES } from "../names/unix-path.ts";
import { type DaemonConfig, daemonConfigSchema } from "./schema.ts";
import { unknownKeys } from "./unknown-keys.ts";

// Lengths of what a socket's path has below the configured directories.
const ALLOCATION_BYTES = "/0123456789abcdef".length;
const SOCKET_BYTES = "/vhost.sock".length;
const INTERFACE_BYTES = 15; // the longest CNI_IFNAME
const DEVICE_NUMBER_BYTES = "-00000".length;

/**
 * Reads and checks the configuration file.
 * @param node this node's name, for a file that serves every node and so names none
 * @throws Failure `invalid-config` with line and key
 */
export async function loadConfig(file: string, node?: string): Promise<DaemonConfig> {
  const text = await readFile(file, "utf8").catch((cause: unknown) => {
    const what = `the configuration file cannot be read: ${describeThrown(cause)}`;
    throw new Failure({ code: "invalid-config", what, where: file, cause });
  });
  return parseConfig(text, file, node);
}

/** Checks the text of a configuration file. @throws Failure `invalid-config` with line and key */
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
    const { issues } = parsed.error;
    const unknown = unknownKeys(daemonConfigSchema, issues).map(({ path, meant }) => {
      return { path, message: `there is no such key${meant === undefined ? "" : `, write ${meant}`}` };
    });
    const others = issues.filter(({ code }) => code !== "unrecognized_keys");
    const problems = [...unknown, ...others].map(({ path, message }) => {
      return `line ${lineOf(document.contents, path, lines)}, key ${path.join(".") || "(top)"}: ${message}`;
    });
    throw invalid(problems.join("; "), file);
  }
  checkPathLengths(parsed.data, file);
  return Object.freeze(parsed.data);
}

/** What can be used of a configuration that is wrong: the keys and pools that are valid, and defaults for the others. */
export function usableConfig(text: string, node: string): DaemonConfig {
  const { data: given = {} } = z.looseObject({}).safeParse(orUndefined(() => parseDocument(text).toJS()));
  const { pools: schemaOfPools, ...keys } = daemonConfigSchema.shape;
  const entries = Object.entries({ ...keys, node: keys.node.default(node) }).map(([key, schema]) => {
    const { success, data } = schema.safeParse(given[key]);
    return [key, success ? data : schema.parse(undefined)];
  });
  const pools = Object.entries(z.looseObject({}).safeParse(given["pools"]).data ?? {});
  return {
    ...Object.fromEntries(entries),
    pools: pools.flatMap(([name, keysOfPool]) => schemaOfPools.safeParse({ [name]: keysOfPool }).data ?? []),
  };
}

function orUndefined<Value>(read: () => Value): Value | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** @throws Failure `invalid-config` for an alias of nothing, or aliases that make a small text a huge value */
function plainValue(document: Document, file: string): unknown {
  try {
    return document.toJS();
  } catch (error) {
    throw invalid(describeThrown(error), file);
  }
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

/** @throws Failure `invalid-config` where a socket below the configured directories would have too long a path for the kernel */
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
