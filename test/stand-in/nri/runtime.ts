// A container runtime as its NRI plugins see it: containerd or CRI-O, in both dialects, with their time limits and habits.
import { rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { type Clock, systemClock } from "../../../src/sync/clock.ts";
import { CallStatus, type Cut, RuntimeConnection } from "./runtime-connection.ts";

/** How a runtime behaves. */
export interface RuntimeHabits {
  /** Default: containerd */
  readonly kind?: "containerd" | "cri-o";
  /** NRI before 0.12 has StateChange for all events, later ones a call for each. Default: calls */
  readonly dialect?: "state-change" | "calls";
  readonly registrationTimeoutMs?: number;
  readonly requestTimeoutMs?: number;
  /** Sandboxes in a part of Synchronize; default all in one. */
  readonly pageSize?: number;
  /** How what the plugin gets is cut into writes. */
  readonly cut?: Cut;
  /** Configuration text of plugins that the runtime starts itself; external ones get none from a real one. */
  readonly config?: string;
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
}

/** What became of a pod's start. */
export type Started =
  | { readonly started: true; readonly byPlugin: boolean }
  | { readonly started: false; readonly reason: string };

const EVENT = { RunPodSandbox: 1, StopPodSandbox: 2, RemovePodSandbox: 3 } as const;
type Verb = keyof typeof EVENT;
const VALID_EVENTS = 0x3fff;

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
  /** Every call to the plugin with its outcome. */
  readonly calls: string[] = [];
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

  /** CRI RunPodSandbox, behind the runtime's own CNI ADD. */
  async run(pod: RuntimePod): Promise<Started> {
    const sandbox: Sandbox = { ...pod, isKnown: true };
    this.#sandboxes.set(pod.id, sandbox);
    try {
      return { started: true, byPlugin: await this.#notify("RunPodSandbox", sandbox, sandbox.netns) };
    } catch (error) {
      // At once, with the network namespace in place.
      await this.#notify("StopPodSandbox", sandbox, sandbox.netns).catch(() => false);
      await this.#notify("RemovePodSandbox", sandbox, sandbox.netns).catch(() => false);
      this.#sandboxes.delete(pod.id);
      return { started: false, reason: (error as Error).message };
    }
  }

  /** CRI StopPodSandbox. @param netns what is left of the namespace's path; CRI-O has removed the file by then */
  async stop(id: string, netns: string | undefined = this.#sandboxes.get(id)?.netns): Promise<void> {
    const sandbox = this.#sandboxes.get(id);
    if (sandbox?.isKnown !== true) return;
    await this.#notify("StopPodSandbox", sandbox, netns).catch((error: unknown) => {
      if (this.#habits.kind === "cri-o") throw error;
    });
  }

  /** CRI RemovePodSandbox. */
  async remove(id: string): Promise<void> {
    const sandbox = this.#sandboxes.get(id);
    this.#sandboxes.delete(id);
    if (sandbox?.isKnown === true)
      await this.#notify("RemovePodSandbox", sandbox, undefined).catch(() => false);
  }

  /** @returns whether a plugin was asked and agreed. @throws what it answered */
  #notify(verb: Verb, pod: Sandbox, netns: string | undefined): Promise<boolean> {
    return this.#locked(async () => {
      const connection = this.#isReady ? this.connection : undefined;
      if (connection === undefined || (this.#events & (1 << (EVENT[verb] - 1))) === 0) return false;
      const request = { pod: wirePod({ ...pod, netns }) };
      try {
        if (this.#habits.dialect === "state-change")
          await this.#call(connection, "StateChange", { event: EVENT[verb], ...request });
        else await this.#call(connection, verb, request);
      } catch (error) {
        if (error instanceof CallStatus) {
          this.calls.push(`${verb} ${pod.id}: ${error.code}`);
          throw error;
        }
        // No answer in time, or none at all: the pod goes on without the plugin.
        connection.close(`${verb}: ${(error as Error).message}`);
        return false;
      }
      this.calls.push(`${verb} ${pod.id}: ok`);
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
    const connection = new RuntimeConnection({
      socket,
      cut: this.#habits.cut ?? ((bytes) => [bytes]),
      register: ({ plugin_name: name, plugin_idx: index }) => {
        const problem = !/^[A-Za-z0-9_.+-]+$/.test(name)
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
      .catch((error: Error) => connection.close(error.message));
  }

  /** Configures and synchronizes a plugin; no pod starts or ends meanwhile. */
  #start(connection: RuntimeConnection): Promise<void> {
    const { kind = "containerd", config = "", pageSize, requestTimeoutMs = 2_000 } = this.#habits;
    return this.#locked(async () => {
      const { events } = (await this.#call(connection, "Configure", {
        ...{ config, runtime_name: kind, runtime_version: "v0.0.0-stand-in" },
        registration_timeout: this.#habits.registrationTimeoutMs ?? 5_000,
        request_timeout: requestTimeoutMs,
      })) as { readonly events: number };
      if ((events & ~VALID_EVENTS) !== 0) throw new Error(`invalid plugin events: ${events}`);
      this.#events = events === 0 ? VALID_EVENTS : events;
      const byMs = this.#clock.monotonic() + requestTimeoutMs;
      const left = [...this.#sandboxes.values()];
      for (let more = true; more; ) {
        const pods = left.splice(0, pageSize ?? Number.POSITIVE_INFINITY).map(wirePod);
        more = left.length > 0;
        const answer = await this.#call(connection, "Synchronize", { pods, more }, byMs);
        if (answer["more"] !== more) throw new Error("plugin does not handle split sync requests");
      }
      this.connection = connection;
      this.#isReady = !connection.isClosed;
    });
  }
}

function wirePod({ id, name, uid, namespace, netns }: RuntimePod): object {
  const network = netns === undefined ? [] : [{ type: "network", path: netns }];
  return { ...{ id, name, uid, namespace }, linux: { namespaces: [{ type: "ipc", path: "" }, ...network] } };
}
