// A container runtime as its NRI plugins see it: containerd or CRI-O, of several versions, with their time limits and habits.
import { existsSync, lstatSync, mkdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { basename, join } from "node:path";
import { type Clock, systemClock } from "../../../src/sync/clock.ts";
import { CallStatus, type Cut, RuntimeConnection } from "./runtime-connection.ts";

/** Version of NRI in the runtime; each was in some containerd and CRI-O. */
export const NRI_VERSIONS = ["0.6", "0.8", "0.11", "0.12"] as const;
type NriVersion = (typeof NRI_VERSIONS)[number];

/** How a runtime behaves. */
export interface RuntimeHabits {
  /** Default: containerd */
  readonly kind?: "containerd" | "cri-o";
  /** Default: the newest */
  readonly nri?: NriVersion;
  readonly registrationTimeoutMs?: number;
  readonly requestTimeoutMs?: number;
  /** Sandboxes in a part of Synchronize; default all in one. */
  readonly pageSize?: number;
  /** How what the plugin gets is cut into writes. */
  readonly cut?: Cut;
  /** Configures a plugin before its registration is answered, which may happen. */
  readonly configuresFirst?: boolean;
  /** Configuration text of plugins that the runtime starts itself; external ones get none from a real one. */
  readonly config?: string;
  /** Where it has network namespaces, as files; default nowhere. */
  readonly netnsDirectory?: string;
  /** Where it looks for CDI files. */
  readonly cdiDirectory?: string;
  readonly clock?: Clock;
}

/** A sandbox of the runtime. */
export interface RuntimePod {
  readonly id: string;
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  /** Undefined for a pod of the host's network. */
  readonly netns: string | undefined;
}

interface Sandbox extends RuntimePod {
  /** Whether plugins hear of its end: not with containerd, for sandboxes that an earlier process of it started. */
  isKnown: boolean;
  /** Its start is over. */
  isCreated: boolean;
}

/** What became of the start of a pod or a container; the plugin may have been away. */
export type Started =
  | { readonly started: true; readonly byPlugin: boolean }
  | { readonly started: false; readonly reason: string };

const EVENT = { RunPodSandbox: 1, StopPodSandbox: 2, RemovePodSandbox: 3, CreateContainer: 4 } as const;
type Verb = keyof typeof EVENT;

/** A runtime that listens until it is closed. */
export class Runtime {
  readonly socketPath: string;
  readonly #habits: RuntimeHabits;
  readonly #clock: Clock;
  readonly #sandboxes = new Map<string, Sandbox>();
  #server: Server | undefined;
  /** That of the plugin that was synchronized last. */
  connection: RuntimeConnection | undefined;
  #isReady = false;
  /** One lock for all calls of the node. */
  #lock: Promise<unknown> = Promise.resolve();
  /** Why connections ended. */
  readonly closed: string[] = [];
  readonly registered: { readonly name: string; readonly index: string }[] = [];
  /** What it did for sandboxes: each call to the plugin with its outcome, and its own network. */
  readonly steps: string[] = [];
  readonly #starting = new Set<Promise<unknown>>();
  #events = 0;

  constructor(socketPath: string, habits: RuntimeHabits = {}) {
    this.socketPath = socketPath;
    this.#habits = habits;
    this.#clock = habits.clock ?? systemClock;
  }

  /** Whether a plugin is registered, configured and synchronized. */
  get isReady(): boolean {
    return this.#isReady;
  }

  async listen(): Promise<void> {
    await rm(this.socketPath, { force: true });
    const server = createServer((socket) => this.#accept(socket));
    this.#server = server;
    await new Promise<void>((resolve) => server.listen(this.socketPath, resolve));
  }

  /** The process ends: the socket is gone. */
  async close(): Promise<void> {
    this.connection?.close("the runtime ended");
    const server = this.#server;
    this.#server = undefined;
    await new Promise((resolve) => (server === undefined ? resolve(undefined) : server.close(resolve)));
  }

  /** The process ends and another starts: containerd tells no plugin of the end of sandboxes that it finds then. */
  async restart(): Promise<void> {
    await this.close();
    for (const sandbox of this.#sandboxes.values()) sandbox.isKnown = this.#habits.kind === "cri-o";
    await this.listen();
  }

  /** CRI RunPodSandbox. */
  async run(pod: RuntimePod): Promise<Started> {
    const started = this.#run(pod);
    this.#starting.add(started);
    return started.finally(() => this.#starting.delete(started));
  }

  async #run(pod: RuntimePod): Promise<Started> {
    const sandbox: Sandbox = { ...pod, isKnown: true, isCreated: false };
    this.#makeNetns(sandbox);
    this.steps.push(`CNI ADD ${pod.id}`);
    this.#sandboxes.set(pod.id, sandbox);
    try {
      const byPlugin = await this.#notify("RunPodSandbox", sandbox, sandbox.netns);
      sandbox.isCreated = true;
      return { started: true, byPlugin };
    } catch (error) {
      // At once, with the network namespace in place.
      await this.#notify("StopPodSandbox", sandbox, sandbox.netns).catch(() => false);
      await this.#notify("RemovePodSandbox", sandbox, sandbox.netns).catch(() => false);
      this.#removeNetns(sandbox);
      this.#sandboxes.delete(pod.id);
      return { started: false, reason: (error as Error).message };
    }
  }

  /** CRI CreateContainer and StartContainer. @param cdiDevices their mounts must be there */
  async runContainer(id: string, cdiDevices: readonly string[] = []): Promise<Started> {
    const sandbox = this.#sandboxes.get(id);
    if (sandbox === undefined) throw new Error(`no sandbox ${id}`);
    try {
      const byPlugin = await this.#notify("CreateContainer", sandbox, sandbox.netns);
      for (const device of cdiDevices) await this.#requireMounts(device);
      return { started: true, byPlugin };
    } catch (error) {
      return { started: false, reason: (error as Error).message };
    }
  }

  /** CRI StopPodSandbox. May be repeated. @throws CallStatus with CRI-O, of the plugin */
  async stop(id: string): Promise<void> {
    const sandbox = this.#sandboxes.get(id);
    if (sandbox === undefined) return;
    const isCriO = this.#habits.kind === "cri-o";
    if (isCriO) this.#removeNetns(sandbox);
    if (sandbox.isKnown)
      await this.#notify("StopPodSandbox", sandbox, this.#netnsAtStop(sandbox)).catch((error: unknown) => {
        if (isCriO) throw error;
      });
    if (!isCriO) this.#removeNetns(sandbox);
  }

  /** CRI RemovePodSandbox. */
  async remove(id: string): Promise<void> {
    const sandbox = this.#sandboxes.get(id);
    this.#sandboxes.delete(id);
    if (sandbox?.isKnown === true)
      await this.#notify("RemovePodSandbox", sandbox, undefined).catch(() => false);
  }

  #makeNetns({ netns }: Sandbox): void {
    const path = this.#netnsFile(netns);
    if (path === undefined) return;
    mkdirSync(this.#habits.netnsDirectory ?? "", { recursive: true });
    writeFileSync(path, "");
  }

  /** The runtime's own CNI DEL, then the namespace. */
  #removeNetns({ id, netns }: Sandbox): void {
    this.steps.push(`CNI DEL ${id}`);
    const path = this.#netnsFile(netns);
    if (path !== undefined) rmSync(path, { force: true });
  }

  #netnsFile(netns: string | undefined): string | undefined {
    const { netnsDirectory } = this.#habits;
    return netns === undefined || netnsDirectory === undefined
      ? undefined
      : join(netnsDirectory, basename(netns));
  }

  /** containerd names none up to 2.0, and from 2.3 only one that is there. */
  #netnsAtStop({ netns }: Sandbox): string | undefined {
    const { kind, nri = "0.12" } = this.#habits;
    const file = this.#netnsFile(netns);
    if (kind === "cri-o" || nri === "0.11") return netns;
    if (nri === "0.12") return file !== undefined && !existsSync(file) ? undefined : netns;
    return netns && "";
  }

  async #requireMounts(device: string): Promise<void> {
    const { cdiDirectory = "" } = this.#habits;
    const files = (await readdir(cdiDirectory)).filter((name) => name.endsWith(".json"));
    const [found] = files
      .map((name) => JSON.parse(readFileSync(join(cdiDirectory, name), "utf8")) as CdiFile)
      .flatMap(({ kind, devices }) => devices.filter(({ name }) => `${kind}=${name}` === device));
    if (found === undefined) throw new Error(`unresolvable CDI devices ${device}`);
    for (const { hostPath } of found.containerEdits.mounts)
      if (!this.#isThere(hostPath)) throw new Error(`mount ${hostPath}: no such file or directory`);
  }

  /** A link is followed, with network namespaces where this runtime has them. */
  #isThere(path: string): boolean {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (!found?.isSymbolicLink()) return found !== undefined;
    const target = readlinkSync(path);
    return existsSync(this.#netnsFile(target) ?? target);
  }

  /** @returns whether a plugin was asked and agreed. @throws what it answered */
  #notify(verb: Verb, pod: Sandbox, netns: string | undefined): Promise<boolean> {
    return this.#locked(async () => {
      const connection = this.#isReady ? this.connection : undefined;
      if (connection === undefined || (this.#events & (1 << (EVENT[verb] - 1))) === 0) return false;
      const request = { pod: wirePod({ ...pod, netns }) };
      try {
        if (verb !== "CreateContainer" && this.#habits.nri !== undefined && this.#habits.nri !== "0.12")
          await this.#call(connection, "StateChange", { event: EVENT[verb], ...request });
        else await this.#call(connection, verb, request);
      } catch (error) {
        if (error instanceof CallStatus) {
          this.steps.push(`${verb} ${pod.id}: ${error.code}`);
          throw error;
        }
        // No answer in time, or none at all: the pod goes on without the plugin.
        connection.close(`${verb}: ${(error as Error).message}`);
        return false;
      }
      this.steps.push(`${verb} ${pod.id}: ok`);
      return true;
    });
  }

  #locked<Value>(work: () => Promise<Value>): Promise<Value> {
    const done = this.#lock.then(work);
    this.#lock = done.catch(() => undefined);
    return done;
  }

  async #call(connection: RuntimeConnection, method: string, request: object, byMs?: number) {
    const timeoutMs = this.#habits.requestTimeoutMs ?? 2_000;
    const leftMs = (byMs ?? this.#clock.monotonic() + timeoutMs) - this.#clock.monotonic();
    const done = new AbortController();
    const late = this.#clock.sleep(leftMs, done.signal).then(() => {
      throw new Error("context deadline exceeded");
    });
    late.catch(() => undefined);
    try {
      return await Promise.race([connection.call(method, request, leftMs), late]);
    } finally {
      done.abort();
    }
  }

  #accept(socket: Socket): void {
    const registered = Promise.withResolvers<void>();
    const started = Promise.withResolvers<void>();
    const connection = new RuntimeConnection({
      socket,
      cut: this.#habits.cut ?? ((bytes) => [bytes]),
      register: ({ plugin_name: name, plugin_idx: index }) => {
        const { nri = "0.12", configuresFirst } = this.#habits;
        const problem =
          nri === "0.12" && !/^[A-Za-z0-9_.+-]+$/.test(name)
            ? `invalid plugin name: ${name}`
            : !/^\d\d$/.test(index)
              ? `invalid plugin index: ${index}`
              : undefined;
        if (problem !== undefined) {
          registered.reject(new Error(problem));
          throw new Error(problem);
        }
        this.registered.push({ name, index });
        registered.resolve();
        return configuresFirst ? started.promise : undefined;
      },
      closed: (why) => {
        this.closed.push(why);
        registered.reject(new Error(why));
        if (this.connection === connection) this.#isReady = false;
      },
    });
    const limit = new AbortController();
    this.#clock.sleep(this.#habits.registrationTimeoutMs ?? 5_000, limit.signal).then(
      () => connection.close("plugin registration timed out"),
      () => undefined,
    );
    registered.promise
      .finally(() => limit.abort())
      .then(() => this.#start(connection))
      .catch((error: Error) => connection.close(error.message))
      .finally(() => started.resolve());
  }

  /** Configures and synchronizes a plugin. With containerd no sandbox is starting or ending meanwhile. */
  async #start(connection: RuntimeConnection): Promise<void> {
    const {
      kind = "containerd",
      nri = "0.12",
      config = "",
      pageSize,
      requestTimeoutMs = 2_000,
    } = this.#habits;
    const registrationTimeoutMs = this.#habits.registrationTimeoutMs ?? 5_000;
    if (kind === "containerd") await Promise.all(this.#starting);
    const timeouts = { registration_timeout: registrationTimeoutMs, request_timeout: requestTimeoutMs };
    await this.#locked(async () => {
      const { events } = (await this.#call(connection, "Configure", {
        ...{ config, runtime_name: kind, runtime_version: "v0.0.0-stand-in" },
        ...(nri !== "0.6" && timeouts),
      })) as { readonly events: number };
      const valid = nri === "0.6" || nri === "0.8" ? 0x7ff : 0x3fff;
      if ((events & ~valid) !== 0) throw new Error(`invalid plugin events: ${events}`);
      this.#events = events === 0 ? valid : events;
      const byMs = this.#clock.monotonic() + requestTimeoutMs;
      const left = [...this.#sandboxes.values()].filter(
        ({ isCreated }) => isCreated || kind === "containerd",
      );
      for (let more = true; more; ) {
        const pods = left
          .splice(0, nri === "0.6" ? left.length : (pageSize ?? left.length))
          .map((pod) => wirePod(pod));
        more = left.length > 0;
        const answer = await this.#call(connection, "Synchronize", { pods, more }, byMs);
        if (answer["more"] !== more) throw new Error("plugin does not handle split sync requests");
      }
      this.connection = connection;
      this.#isReady = !connection.isClosed;
    });
  }
}

interface CdiFile {
  readonly kind: string;
  readonly devices: readonly {
    readonly name: string;
    readonly containerEdits: { readonly mounts: readonly { readonly hostPath: string }[] };
  }[];
}

function wirePod({ id, name, uid, namespace, netns }: RuntimePod): object {
  const network = netns === undefined ? [] : [{ type: "network", path: netns }];
  return { ...{ id, name, uid, namespace }, linux: { namespaces: [{ type: "ipc", path: "" }, ...network] } };
}
