import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { ClientReadableStream } from "@grpc/grpc-js";
import { loadService } from "../../../src/grpc/load-service.ts";
import { dialUnix, type UnixClient } from "../../../src/grpc/unix-client.ts";
import { socketIdentity } from "../../../src/kubelet/socket-identity.ts";

/** A claim as a pod refers to it, of one driver. */
export interface PodClaim {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** A device as kubelet keeps it for a claim. */
export interface KubeletDevice {
  readonly request_names: readonly string[];
  readonly pool_name: string;
  readonly device_name: string;
  readonly cdi_device_ids: readonly string[];
  readonly share_id?: string;
}

/** A device's health as the driver sent it. */
export interface SentHealth {
  readonly device: { readonly pool_name: string; readonly device_name: string };
  readonly health: number;
  readonly last_updated_time: number;
  readonly health_check_timeout_seconds: number;
  readonly message: string;
}

interface ClaimInfo extends PodClaim {
  readonly pods: Set<string>;
  devices: readonly KubeletDevice[];
  /** In memory alone: the checkpoint does not have it. */
  isPrepared: boolean;
}

interface Plugin {
  /** Of the registration socket: kubelet sees when a file replaces another one. */
  readonly identity: string | undefined;
  readonly endpoint: string;
  readonly version: string;
  readonly client: UnixClient;
  readonly health: ClientReadableStream<{ readonly devices: readonly SentHealth[] }>;
}

/** Labels of the plugin API and the names of its services on the wire. */
const VERSIONS: Readonly<Record<string, readonly [file: string, service: string]>> = {
  "v1.DRAPlugin": ["kubelet/dra-v1.proto", "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"],
  "v1beta1.DRAPlugin": ["kubelet/dra-v1beta1.proto", "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin"],
};

const CALL_DEADLINE_MS = 45_000;
const LOOK_MS = 5;

/**
 * The part of kubelet (1.36) that calls DRA drivers, with its order and habits: it finds registration sockets itself,
 * takes the first version of a driver's list that it knows, opens the health stream whether announced or not, calls
 * Prepare once for all claims of a pod and driver and not again while it knows that they are prepared, forgets that when
 * it restarts, and refuses answers with missing or unknown claims.
 */
export class StandInDraManager {
  readonly #registryDirectory: string;
  readonly #supported: readonly string[];
  /** By path of the registration socket. */
  readonly #plugins = new Map<string, Plugin & { readonly driver: string }>();
  /** Its checkpoint: by namespace and name. */
  readonly #claims = new Map<string, ClaimInfo>();
  /** Paths of calls, over all lives. */
  readonly calls: string[] = [];
  /** What the driver sent last. */
  health: readonly SentHealth[] = [];
  /** Reasons for which registrations were refused. */
  readonly refused: string[] = [];
  #stop: AbortController | undefined;
  #watching: Promise<void> = Promise.resolve();

  /** @param supported labels of the services that this kubelet knows */
  constructor(registryDirectory: string, supported: readonly string[] = Object.keys(VERSIONS)) {
    this.#registryDirectory = registryDirectory;
    this.#supported = supported;
  }

  start(): void {
    const stop = new AbortController();
    this.#stop = stop;
    this.#watching = this.#watch(stop.signal);
  }

  /** Dies. Pods keep what they have; that claims are prepared is forgotten. */
  async stop(): Promise<void> {
    this.#stop?.abort();
    await this.#watching;
    for (const path of [...this.#plugins.keys()]) this.#deregister(path);
    for (const claim of this.#claims.values()) claim.isPrepared = false;
  }

  /** The version by which a driver is called; undefined where it is not registered. */
  versionOf(driver: string): string | undefined {
    return this.#plugin(driver)?.version;
  }

  /** Waits until a driver is registered, or is not any more. */
  async waitForDriver(driver: string, isRegistered = true, deadlineMs = 30_000): Promise<void> {
    const end = performance.now() + deadlineMs;
    while ((this.#plugin(driver) !== undefined) !== isRegistered) {
      if (performance.now() > end)
        throw new Error(
          `driver ${driver} is not ${isRegistered ? "registered" : "gone"}: ${this.refused.join()}`,
        );
      await delay(LOOK_MS);
    }
  }

  /**
   * What kubelet does before it makes a pod's sandbox.
   * @throws with the text of the pod's event `FailedPrepareDynamicResources`
   */
  async prepare(
    podUid: string,
    driver: string,
    claims: readonly PodClaim[],
  ): Promise<readonly KubeletDevice[]> {
    for (const claim of claims) {
      const known = this.#claims.get(keyOf(claim));
      if (known !== undefined && known.uid !== claim.uid)
        throw new Error(`old claim ${keyOf(claim)} with UID ${known.uid} is still prepared`);
      const info = known ?? { ...claim, pods: new Set<string>(), devices: [], isPrepared: false };
      info.pods.add(podUid);
      this.#claims.set(keyOf(claim), info);
    }
    const batch = this.#infos(claims).filter(({ isPrepared }) => !isPrepared);
    if (batch.length > 0) {
      const answers = await this.call<{ devices: KubeletDevice[]; error: string }>(
        ...(["NodePrepareResources", driver, batch] as const),
      );
      for (const info of batch) info.devices = answers[info.uid]?.devices ?? [];
      for (const info of batch) info.isPrepared = true;
    }
    return this.#infos(claims).flatMap(({ devices }) => devices);
  }

  /** What kubelet does when a pod is over, and for pods that are gone when it starts. */
  async unprepare(podUid: string, driver: string): Promise<void> {
    const own = [...this.#claims.values()].filter(({ pods }) => pods.has(podUid));
    const last = own.filter(({ pods }) => pods.size === 1);
    if (last.length > 0) await this.call("NodeUnprepareResources", driver, last);
    for (const info of own) info.pods.delete(podUid);
    for (const info of last) this.#claims.delete(keyOf(info));
  }

  /** A call as kubelet makes it, whatever it has in memory. @returns the answers by UID */
  async call<Answer extends object>(
    method: "NodePrepareResources" | "NodeUnprepareResources",
    driver: string,
    claims: readonly PodClaim[],
  ): Promise<Readonly<Record<string, Answer>>> {
    const plugin = this.#plugin(driver);
    if (plugin === undefined) throw new Error(`DRA driver ${driver} is not registered`);
    this.calls.push(`${method} ${claims.map(({ name }) => name).join()}`);
    const request = { claims: claims.map(({ namespace, uid, name }) => ({ namespace, uid, name })) };
    const { claims: answers } = await plugin.client.call<{
      readonly claims: Readonly<Record<string, Answer & { readonly error: string }>>;
    }>(...([method, request, CALL_DEADLINE_MS] as const));
    for (const [uid, { error }] of Object.entries(answers)) {
      if (error !== "") throw new Error(`${method} failed for claim ${uid}: ${error}`);
      if (!claims.some((claim) => claim.uid === uid))
        throw new Error(`${method} returned unknown claim ${uid}`);
    }
    const skipped = claims.length - Object.keys(answers).length;
    if (skipped !== 0) throw new Error(`${method} skipped ${skipped} ResourceClaims`);
    return answers;
  }

  #infos(claims: readonly PodClaim[]): readonly ClaimInfo[] {
    return claims.flatMap((claim) => this.#claims.get(keyOf(claim)) ?? []);
  }

  /** The newest instance. */
  #plugin(driver: string): Plugin | undefined {
    return [...this.#plugins.values()].findLast((plugin) => plugin.driver === driver);
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const failed = new Map<string, string>();
    while (!signal.aborted) {
      const names = await readdir(this.#registryDirectory).catch(() => []);
      const paths = names
        .filter((name) => name.endsWith(".sock"))
        .map((name) => join(this.#registryDirectory, name));
      for (const [path, { identity }] of this.#plugins) {
        if (!paths.includes(path) || (await socketIdentity(path)) !== identity) this.#deregister(path);
      }
      for (const path of paths) {
        if (this.#plugins.has(path)) continue;
        failed.delete(path);
        await this.#register(path).catch((error: unknown) => failed.set(path, String(error)));
      }
      this.refused.splice(0, this.refused.length, ...failed.values());
      await delay(LOOK_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  async #register(path: string): Promise<void> {
    const identity = await socketIdentity(path);
    const service = loadService("kubelet/pluginregistration-v1.proto", "pluginregistration.Registration");
    const registration = dialUnix(service, path, { "grpc.use_local_subchannel_pool": 1 });
    const notify = (status: { readonly plugin_registered: boolean; readonly error?: string }) =>
      registration.call("NotifyRegistrationStatus", status, 10_000);
    try {
      const info = await registration.call<{
        readonly type: string;
        readonly name: string;
        readonly endpoint: string;
        readonly supported_versions: readonly string[];
      }>("GetInfo", {}, 10_000);
      const version = info.supported_versions.find((one) => this.#supported.includes(one));
      const problem =
        info.type !== "DRAPlugin"
          ? `type ${info.type}`
          : !/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(info.name)
            ? `name ${info.name}`
            : version === undefined
              ? `none of ${info.supported_versions.join()} is supported`
              : [...this.#plugins.values()].some(({ endpoint }) => endpoint === info.endpoint)
                ? `endpoint ${info.endpoint} is registered already`
                : undefined;
      if (problem !== undefined) {
        await notify({ plugin_registered: false, error: problem });
        throw new Error(`${basename(path)}: ${problem}`);
      }
      const [file = "", name = ""] = VERSIONS[version ?? ""] ?? [];
      const client = dialUnix(loadService(file, name), info.endpoint, {
        "grpc.use_local_subchannel_pool": 1,
      });
      const health = this.#watchHealth(info.endpoint);
      this.#plugins.set(path, {
        identity,
        driver: info.name,
        endpoint: info.endpoint,
        version: version ?? "",
        client,
        health,
      });
      await notify({ plugin_registered: true });
    } finally {
      registration.close();
    }
  }

  #watchHealth(endpoint: string): Plugin["health"] {
    const service = loadService("kubelet/dra-health-v1alpha1.proto", "v1alpha1.DRAResourceHealth");
    const client = dialUnix(service, endpoint, { "grpc.use_local_subchannel_pool": 1 });
    const watch: unknown = Reflect.get(client.raw, "NodeWatchResources");
    if (typeof watch !== "function") throw new TypeError("no method NodeWatchResources");
    const stream: Plugin["health"] = watch.call(client.raw, {});
    stream.on("data", ({ devices }) => {
      this.health = devices;
    });
    stream.on("error", () => client.close());
    return stream;
  }

  #deregister(path: string): void {
    const plugin = this.#plugins.get(path);
    plugin?.health.cancel();
    plugin?.client.close();
    this.#plugins.delete(path);
  }
}

const keyOf = ({ namespace, name }: PodClaim): string => `${namespace}/${name}`;
