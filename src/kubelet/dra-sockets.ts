// Names of a DRA driver's two sockets, as Kubernetes' own helper for drivers has them (kubeletplugin, release 1.33 on):
// with the UID of the driver's pod, so that an old and a new one of a rolling update do not replace each other's.
import { createHash } from "node:crypto";
import { readdir, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { Failure, systemCode } from "../failure/failure.ts";
import { checkUnixPath, UNIX_PATH_MAX_BYTES } from "../names/unix-path.ts";

/** Where a driver serves. */
export interface DraSockets {
  /** In the directory that kubelet watches. */
  readonly registration: string;
  /** In the driver's own directory. */
  readonly service: string;
}

/** Which driver it is, and where kubelet expects it. */
export interface DraPlaces {
  readonly driver: string;
  /** kubelet's `plugins_registry`. */
  readonly registryDirectory: string;
  /** The driver's own directory, by convention `plugins/<driver>` below kubelet's. */
  readonly pluginDirectory: string;
  /** UID of the daemon's pod; undefined where it runs in none. */
  readonly podUid: string | undefined;
}

/** @throws Failure `path-too-long`, `directory-unsafe` */
export function draSockets({ driver, registryDirectory, pluginDirectory, podUid }: DraPlaces): DraSockets {
  const inRegistry = (name: string) => join(registryDirectory, `${name}-reg.sock`);
  const inOwn = (name: string) => join(pluginDirectory, `${name}.sock`);
  const [registrations, services] =
    podUid === undefined
      ? [[inRegistry(driver)], [inOwn("dra")]]
      : [
          [
            inRegistry(`${driver}-${podUid}`),
            inRegistry(`${driver}-${digest(podUid, 8)}`),
            inRegistry(`dra-${digest(`${driver}\0${podUid}`, 16)}`),
          ],
          [inOwn(`dra-${podUid}`), inOwn(`dra-${digest(podUid, 8)}`)],
        ];
  return {
    registration: firstThatFits(registrations, `registration of DRA driver ${driver}`),
    service: firstThatFits(services, `service of DRA driver ${driver}`),
  };
}

/**
 * Removes sockets that earlier instances of the driver left when they were killed, which kubelet would call again and
 * again. For the only instance on the node.
 */
export async function removeStaleDraSockets(driver: string, own: DraSockets): Promise<void> {
  const isRegistration = (name: string) =>
    name.startsWith(driver) && /^(-.+)?-reg\.sock$/.test(name.slice(driver.length));
  const isService = (name: string) => /^dra(-.+)?\.sock$/.test(name);
  for (const [path, isStale] of [
    [own.registration, isRegistration],
    [own.service, isService],
  ] as const) {
    const names = await readdir(dirname(path)).catch((error: unknown) => {
      throw new Failure({
        code: "kubelet-unavailable",
        what: `kubelet's directory for plugins cannot be read: ${systemCode(error)}`,
        where: dirname(path),
        fix: "mount kubelet's directories plugins_registry and plugins into the daemon's pod",
        cause: error,
      });
    });
    for (const name of names) {
      if (isStale(name) && name !== basename(path)) await rm(join(dirname(path), name), { force: true });
    }
  }
}

function firstThatFits(paths: readonly string[], where: string): string {
  const fitting = paths.find((path) => Buffer.byteLength(path) <= UNIX_PATH_MAX_BYTES);
  return checkUnixPath(fitting ?? paths.at(-1) ?? "", where);
}

function digest(text: string, bytes: number): string {
  return createHash("sha256").update(text).digest().subarray(0, bytes).toString("base64url");
}
