import { join } from "node:path";
import { Caches } from "./caches.ts";
import { type CniResult, checkResult } from "./check-result.ts";
import { type DeviceIdOrder, deviceIdsOfNetworks } from "./device-ids.ts";
import {
  cniDeviceInfoFile,
  copyDeviceInfo,
  type DeviceInfoDirectories,
  readDeviceInfo,
  removeDeviceInfo,
} from "./device-info-files.ts";
import { isRecord } from "./is-record.ts";
import { type Delegate, isVersionAtLeast, type SelectedNetwork, toDelegate } from "./network.ts";
import { checkInterfaceIsFree } from "./network-namespace.ts";
import { type NetworkStatus, networkStatus } from "./network-status.ts";
import { pluginEnvironment, pluginStdin, type Sandbox } from "./plugin-input.ts";
import { CniViolation, runPlugin } from "./run-plugin.ts";

/** A node's Multus. */
export interface StandInMultusOptions {
  /** Where the CNI executables are. */
  readonly cniBinDir: string;
  readonly podResourcesSocket: string;
  readonly deviceInfo: DeviceInfoDirectories;
  /** Delegates and results are kept here between ADD and DEL. */
  readonly cacheDirectory: string;
  /** Default `sorted`, as since Multus 4.3.0. */
  readonly deviceIdOrder?: DeviceIdOrder;
  /** `thin` (default): plugins get the runtime's environment. `thick`: that of Multus' own container. */
  readonly mode?: "thin" | "thick";
  /** The runtime's environment; default a PATH. Its CNI_PATH comes behind the executables' directory. */
  readonly runtimeEnv?: Readonly<Record<string, string>>;
  /** What Multus' own container has in its environment beside the usual, in mode `thick`. */
  readonly containerEnv?: Readonly<Record<string, string>>;
  /** Keep the delegates when a DEL failed, so that the next one calls them again; default false as in Multus. */
  readonly retryDeleteOnError?: boolean;
}

/** What a sandbox gets. */
export interface AttachRequest extends Sandbox {
  /** The selection list in its order. The cluster's default network comes before it and is not run. */
  readonly networks: readonly SelectedNetwork[];
}

/** What the networks answered. */
export interface Attached {
  /** The elements of the pod's network-status, without the default network's. */
  readonly networkStatus: readonly NetworkStatus[];
  readonly results: readonly CniResult[];
}

const THICK_ENVIRONMENT = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  HOSTNAME: "kube-multus-ds-x7k2p",
  KUBERNETES_SERVICE_HOST: "10.96.0.1",
  KUBERNETES_SERVICE_PORT: "443",
};

/** Multus as a CNI plugin sees it: real executables, real files, the exact environment and stdin. */
export class StandInMultus {
  readonly #options: StandInMultusOptions;
  readonly #caches: Caches;

  constructor(options: StandInMultusOptions) {
    this.#options = options;
    this.#caches = new Caches(options.cacheDirectory);
  }

  /**
   * ADD for every network. When one fails, DEL is run for those up to and including it, in reverse, and the
   * first error is thrown.
   * @throws CniError, CniViolation, or an Error of Multus' own checks
   */
  async attach(request: AttachRequest): Promise<Attached> {
    if (!/^[A-Za-z0-9][A-Za-z0-9_.-]*$/.test(request.containerId)) throw new Error("invalid container id");
    const ids = await deviceIdsOfNetworks({
      pod: request.pod,
      networks: request.networks,
      podResourcesSocket: this.#options.podResourcesSocket,
      order: this.#options.deviceIdOrder ?? "sorted",
    });
    const delegates = request.networks.map((network, index) => toDelegate(network, index + 1, ids[index]));
    await this.#caches.saveDelegates(request.containerId, delegates);
    const status: NetworkStatus[] = [];
    const results: CniResult[] = [];
    for (const [index, delegate] of delegates.entries()) {
      try {
        const { result, deviceInfo } = await this.#add(delegate, request);
        status.push(...networkStatus(delegate.id, result, deviceInfo));
        results.push(result);
      } catch (error) {
        // The runtime gets the first error; Multus drops those of the clean-up as well.
        for (const started of delegates.slice(0, index + 1).reverse()) {
          await this.#del(started, request).catch(() => undefined);
        }
        throw error;
      }
    }
    return { networkStatus: status, results };
  }

  /**
   * DEL for what attach left in the cache, in reverse. Without a cache nothing is called and it succeeds.
   * @throws AggregateError with every plugin's error, after all were called
   */
  async detach(sandbox: Sandbox): Promise<void> {
    const delegates = await this.#caches.readDelegates(sandbox.containerId);
    if (delegates === undefined) return;
    const errors: unknown[] = [];
    for (const delegate of [...delegates].reverse()) {
      await this.#del(delegate, sandbox).catch((error: unknown) => errors.push(error));
    }
    if (errors.length === 0 || this.#options.retryDeleteOnError !== true) {
      await this.#caches.removeDelegates(sandbox.containerId);
    }
    if (errors.length > 0) throw new AggregateError(errors, errors.map(String).join("; "));
  }

  /** Asks a plugin for the versions that it speaks. */
  async supportedVersions(type: string, cniVersion = "1.1.0"): Promise<readonly string[]> {
    const answer = await runPlugin({
      executable: join(this.#options.cniBinDir, type),
      env: { ...this.#baseEnvironment(), CNI_COMMAND: "VERSION", CNI_PATH: this.#cniPath() },
      stdin: { cniVersion },
    });
    const versions = isRecord(answer) ? answer["supportedVersions"] : undefined;
    if (
      !Array.isArray(versions) ||
      versions.length === 0 ||
      versions.some((one) => typeof one !== "string")
    ) {
      throw new CniViolation(`VERSION: no supportedVersions in ${JSON.stringify(answer)}`);
    }
    return versions;
  }

  async #add(
    delegate: Delegate,
    sandbox: Sandbox,
  ): Promise<{ result: CniResult; deviceInfo: object | undefined }> {
    const deviceInfoFile = this.#deviceInfoFile(delegate, sandbox);
    await copyDeviceInfo(this.#options.deviceInfo, delegate, deviceInfoFile);
    await checkInterfaceIsFree(sandbox.netns, delegate.ifName);
    let result: CniResult | undefined;
    for (const plugin of delegate.plugins) {
      const answer = await runPlugin({
        executable: join(this.#options.cniBinDir, plugin.type),
        env: this.#environment("ADD", delegate, sandbox),
        stdin: pluginStdin({ delegate, plugin, deviceInfoFile, prevResult: result }),
      });
      result = checkResult(answer);
    }
    if (result === undefined) throw new Error(`${delegate.id}: no plugin`);
    await this.#caches.saveResult(delegate, sandbox.containerId, result);
    const deviceInfo = delegate.deviceId === undefined ? undefined : await readDeviceInfo(deviceInfoFile);
    return { result, deviceInfo };
  }

  async #del(delegate: Delegate, sandbox: Sandbox): Promise<void> {
    const deviceInfoFile = this.#deviceInfoFile(delegate, sandbox);
    const cached = await this.#caches.readResult(delegate, sandbox.containerId);
    const prevResult = isVersionAtLeast(delegate.cniVersion, "0.4.0") ? cached : undefined;
    try {
      for (const plugin of [...delegate.plugins].reverse()) {
        const answer = await runPlugin({
          executable: join(this.#options.cniBinDir, plugin.type),
          env: this.#environment("DEL", delegate, sandbox),
          stdin: pluginStdin({ delegate, plugin, deviceInfoFile, prevResult }),
        });
        if (answer !== undefined) throw new CniViolation(`DEL: ${JSON.stringify(answer)} on stdout`);
      }
      await this.#caches.removeResult(delegate, sandbox.containerId);
    } finally {
      if (delegate.deviceId !== undefined) await removeDeviceInfo(deviceInfoFile);
    }
  }

  #environment(verb: "ADD" | "DEL", delegate: Delegate, sandbox: Sandbox): Readonly<Record<string, string>> {
    return {
      ...this.#baseEnvironment(),
      ...pluginEnvironment({ verb, sandbox, delegate, cniPath: this.#cniPath() }),
    };
  }

  #baseEnvironment(): Readonly<Record<string, string>> {
    if (this.#options.mode === "thick") return { ...THICK_ENVIRONMENT, ...this.#options.containerEnv };
    return this.#options.runtimeEnv ?? { PATH: THICK_ENVIRONMENT.PATH };
  }

  #cniPath(): string {
    const runtimes = this.#options.runtimeEnv?.["CNI_PATH"];
    return [this.#options.cniBinDir, ...(runtimes === undefined ? [] : [runtimes])].join(":");
  }

  #deviceInfoFile(delegate: Delegate, sandbox: Sandbox): string {
    return cniDeviceInfoFile(this.#options.deviceInfo.cni, delegate, sandbox.containerId);
  }
}
