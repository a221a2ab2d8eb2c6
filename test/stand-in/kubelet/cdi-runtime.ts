import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** What a container gets of its CDI devices. */
export interface CdiEdits {
  readonly env: readonly string[];
  readonly mounts: readonly CdiMount[];
}

export interface CdiMount {
  readonly hostPath: string;
  readonly containerPath: string;
  readonly options: readonly string[];
}

interface Device {
  readonly name: string;
  readonly containerEdits: Partial<CdiEdits>;
}

const FILE_KEYS = ["cdiVersion", "kind", "devices"];
const KIND = /^[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]\/[A-Za-z][A-Za-z0-9_-]*[A-Za-z0-9]$/;
const NAME = /^[A-Za-z0-9][A-Za-z0-9_.:-]*[A-Za-z0-9]$/;

/**
 * Resolves devices as container runtimes do (Container Device Interface specification 0.5.0): a file with an unknown
 * key is invalid as a whole, a device that two files have is dropped, and a container with an id that is not there, or a
 * missing mount source, is not created.
 */
export function resolveCdi(directory: string, ids: readonly string[]): CdiEdits {
  const devices = new Map<string, CdiEdits | undefined>();
  for (const name of readdirSync(directory)) {
    if (!/\.(json|yaml)$/.test(name)) continue;
    for (const [id, edits] of readFile(join(directory, name))) {
      devices.set(id, devices.has(id) ? undefined : edits);
    }
  }
  const env: string[] = [];
  const mounts = new Map<string, CdiMount>();
  for (const id of ids) {
    const edits = devices.get(id);
    if (edits === undefined) throw new Error(`unresolvable CDI device ${id}`);
    env.push(...edits.env);
    for (const mount of edits.mounts) {
      if (!existsSync(mount.hostPath)) throw new Error(`no mount source ${mount.hostPath}`);
      mounts.set(mount.containerPath, mount);
    }
  }
  return { env, mounts: [...mounts.values()] };
}

function readFile(path: string): readonly (readonly [string, CdiEdits])[] {
  const file = JSON.parse(readFileSync(path, "utf8"));
  const problem = Object.keys(file).find((key) => !FILE_KEYS.includes(key));
  if (problem !== undefined) throw new Error(`${path}: unknown key ${problem}`);
  if (file.cdiVersion !== "0.5.0") throw new Error(`${path}: version ${file.cdiVersion}`);
  if (!KIND.test(file.kind)) throw new Error(`${path}: kind ${file.kind}`);
  if (file.devices.length === 0) throw new Error(`${path}: no device`);
  return file.devices.map(({ name, containerEdits, ...rest }: Device) => {
    const { env = [], mounts = [], ...others } = containerEdits;
    const keys = [...Object.keys(rest), ...Object.keys(others)];
    if (keys.length > 0) throw new Error(`${path}: unknown keys ${keys.join()}`);
    if (!NAME.test(name)) throw new Error(`${path}: name ${name}`);
    if (env.length + mounts.length === 0) throw new Error(`${path}: ${name} has no edits`);
    return [`${file.kind}=${name}`, { env, mounts }];
  });
}
