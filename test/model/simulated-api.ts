import { ApiFailure, failureOf } from "../../src/kube-api/api-failure.ts";
import type { KubeApi, KubeObject, Patch, Resource, Selection } from "../../src/kube-api/client.ts";
import { type Json, ObjectStore, Refusal, type Stored } from "../stand-in/api-server/object-store.ts";
import { metadataOf, selects } from "../stand-in/api-server/selection.ts";
import type { Program } from "./machine.ts";
import { SimulatedWatch } from "./simulated-watch.ts";
import type { Simulation } from "./simulation.ts";

/** A write that the server has done. */
export interface DoneWrite {
  readonly verb: "create" | "update" | "patch" | "delete";
  readonly collection: string;
  readonly name: string;
  readonly program: Program;
  readonly before: Stored | undefined;
  /** Undefined after a deletion. */
  readonly after: Stored | undefined;
  /** What the request said that the object must be. */
  readonly preconditions: { readonly uid?: unknown; readonly resourceVersion?: unknown };
}

/** An API server in memory, on the same store as the stand-in on the wire (test/stand-in/api-server). */
export class SimulatedApiServer {
  readonly store = new ObjectStore();
  readonly simulation: Simulation;
  isUp = true;
  readonly watches = new Set<SimulatedWatch>();
  onWrite: (write: DoneWrite) => void = () => undefined;
  #uids = 0;

  constructor(simulation: Simulation) {
    this.simulation = simulation;
    this.store.newUid = () => {
      this.#uids += 1;
      return `00000000-0000-4000-8000-${String(this.#uids).padStart(12, "0")}`;
    };
  }

  /** It forgets its history: watches that are behind, and lists that are not read to the end, expire (410). */
  compact(): void {
    this.store.compact();
    for (const watch of this.watches) if (watch.isBehind) watch.expire();
  }
}

/** What a client's requests suffer from; in percent of them where nothing else is said. */
export interface Habits {
  /** Nothing reaches the server, and nothing comes back. */
  isPartitioned: boolean;
  /** Never reach the server. */
  lost: number;
  /** Are done, and the answer never comes. */
  answerLost: number;
  /** Are refused for now (429, 500, 503). */
  refused: number;
  /** Are done, and answered with 500 or 504. */
  failedAfterwards: number;
  /** Take up to a minute to reach the server, which does them although the client has given up. */
  slow: number;
  /** Milliseconds that events of a watch take at most. */
  watchLagMs: number;
  /** Events before which the watch is cut. */
  watchCut: number;
  /** Events that come twice. */
  repeated: number;
}

export const HEALTHY: Readonly<Habits> = {
  ...{ isPartitioned: false, lost: 0, answerLost: 0, refused: 0, failedAfterwards: 0, slow: 0 },
  ...{ watchLagMs: 50, watchCut: 0, repeated: 0 },
};

/** As the shipped client's. */
const DEADLINE_MS = 10_000;

type Fate = "done" | "lost" | "answer lost" | "refused" | "failed afterwards";

/** A program's connection to the simulated server: what the shipped code takes of {@link KubeApi}. */
export class SimulatedApi
  implements
    Pick<
      KubeApi,
      "get" | "list" | "create" | "update" | "patch" | "delete" | "openWatch" | "servedVersions" | "close"
    >
{
  readonly habits: Habits;
  readonly #server: SimulatedApiServer;
  readonly #program: Program;

  /** @param habits may be changed while it is used, and belong to a machine rather than to a program */
  constructor(server: SimulatedApiServer, program: Program, habits: Habits = { ...HEALTHY }) {
    this.#server = server;
    this.#program = program;
    this.habits = habits;
  }

  servedVersions(group: string, signal: AbortSignal): Promise<readonly string[]> {
    return this.#request(`GET ${group}`, signal, () => []);
  }

  get(resource: Resource, name: string, signal: AbortSignal): Promise<KubeObject> {
    const { store } = this.#server;
    return this.#request(`GET ${resource.plural}/${name}`, signal, () =>
      frozen(shapeOf(resource)(store.get(collectionOf(resource), name))),
    );
  }

  list(
    resource: Resource,
    selection: Selection,
    signal: AbortSignal,
    keep: (object: KubeObject) => KubeObject = (object) => object,
  ) {
    const { store } = this.#server;
    return this.#request(`GET ${resource.plural}`, signal, () => {
      const { items, version } = store.page(collectionOf(resource), selects(selection), 0, null);
      const shape = shapeOf(resource);
      return { objects: items.map((item) => keep(frozen(shape(item)))), resourceVersion: String(version) };
    });
  }

  create(
    resource: Resource,
    body: object,
    signal: AbortSignal,
    { isDryRun = false }: { readonly isDryRun?: boolean } = {},
  ): Promise<KubeObject> {
    const sent = copied(body);
    const { name } = sent["metadata"] as { readonly name: string };
    return this.#write("create", resource, name, {}, signal, (store, collection) =>
      store.create(collection, sent, isDryRun),
    );
  }

  update(resource: Resource, body: KubeObject, signal: AbortSignal): Promise<KubeObject> {
    const sent = copied(body);
    const { name } = body.metadata;
    return this.#write("update", resource, name, body.metadata, signal, (store, collection) =>
      store.update(collection, name, sent, resource.subresource),
    );
  }

  patch(resource: Resource, name: string, patch: Patch, signal: AbortSignal): Promise<KubeObject> {
    const body = copied(patch.body);
    const preconditions = (body["metadata"] ?? {}) as Json;
    return this.#write("patch", resource, name, preconditions, signal, (store, collection) => {
      if (patch.type === "merge") return store.merge(collection, name, body, resource.subresource);
      return store.apply(collection, name, body, patch.fieldManager, patch.force ?? false);
    });
  }

  async delete(
    resource: Resource,
    name: string,
    preconditions: { readonly uid?: string; readonly resourceVersion?: string },
    signal: AbortSignal,
  ): Promise<void> {
    await this.#write("delete", resource, name, preconditions, signal, (store, collection) =>
      store.remove(collection, name, preconditions),
    );
  }

  async openWatch(
    resource: Resource,
    query: Readonly<Record<string, string | boolean | undefined>> | undefined,
    signal: AbortSignal,
  ) {
    const [server, program, habits] = [this.#server, this.#program, this.habits];
    const watch = await this.#request(
      `WATCH ${resource.plural}`,
      signal,
      () =>
        new SimulatedWatch({
          ...{ server, program, habits, query: query ?? {} },
          ...{ collection: collectionOf(resource), shape: shapeOf(resource) },
        }),
    );
    watch.endWith(signal);
    return watch as unknown as Awaited<ReturnType<KubeApi["openWatch"]>>;
  }

  close(): void {}

  async #write(
    verb: DoneWrite["verb"],
    resource: Resource,
    name: string,
    { uid, resourceVersion }: DoneWrite["preconditions"],
    signal: AbortSignal,
    work: (store: ObjectStore, collection: string) => Stored,
  ): Promise<KubeObject> {
    const { store } = this.#server;
    const collection = collectionOf(resource);
    return this.#request(`${verb} ${resource.plural}/${name}`, signal, () => {
      const before = store.find(collection, name);
      const answer = work(store, collection);
      const after = store.find(collection, name);
      const preconditions = { uid, resourceVersion };
      const done = { verb, collection, name, program: this.#program, before, after, preconditions };
      if (after !== before) this.#server.onWrite(done);
      return frozen(answer);
    });
  }

  /** Does `work` when the request reaches the server, and answers later; or what else its fate is. */
  #request<Value>(where: string, signal: AbortSignal, work: () => Value): Promise<Value> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const { simulation } = this.#server;
      const program = this.#program;
      let isOver = false;
      const end = (settle: () => void) => {
        if (isOver) return false;
        isOver = true;
        signal.removeEventListener("abort", onAbort);
        settle();
        return true;
      };
      const onAbort = () => end(() => reject(signal.reason));
      const fail = (what: string) => end(() => reject(new ApiFailure("unreachable", what, where)));
      signal.addEventListener("abort", onAbort, { once: true });
      program.after(DEADLINE_MS / program.machine.rate, () => fail("not within the deadline"));
      const fate = this.#fate();
      if (fate === "lost") return;
      const isSlow = simulation.percent(this.habits.slow);
      const reach = () => {
        if (this.habits.isPartitioned) return;
        if (!this.#server.isUp) return program.after(1, () => fail("connection refused"));
        const answer = fate === "refused" ? refusal<Value>(simulation, where) : outcome(work, where);
        const seen = fate === "failed afterwards" ? failed<Value>(504, where) : answer;
        if (fate === "answer lost") return;
        program.after(
          simulation.between(0.5, 5),
          () => !this.habits.isPartitioned && end(() => seen(resolve, reject)),
        );
      };
      // A request that is on its way arrives also when its program has ended.
      simulation.after(isSlow ? simulation.between(100, 60_000) : simulation.between(0.5, 5), reach);
    });
  }

  #fate(): Fate {
    const { isPartitioned, lost, answerLost, refused, failedAfterwards } = this.habits;
    const { simulation } = this.#server;
    if (isPartitioned || simulation.percent(lost)) return "lost";
    if (simulation.percent(answerLost)) return "answer lost";
    if (simulation.percent(refused)) return "refused";
    return simulation.percent(failedAfterwards) ? "failed afterwards" : "done";
  }
}

/** As the wire stand-in names them. */
function collectionOf({ namespace, plural }: Resource): string {
  return namespace === undefined ? plural : `${namespace}/${plural}`;
}

function shapeOf({ isMetadataOnly = false }: Resource): (object: Stored) => Stored {
  return isMetadataOnly ? metadataOf : (object) => object;
}

type Answer<Value> = (resolve: (value: Value) => void, reject: (error: unknown) => void) => void;

function outcome<Value>(work: () => Value, where: string): Answer<Value> {
  try {
    const value = work();
    return (resolve) => resolve(value);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const failure = failureOf(error.code, error.status, where);
    return (_, reject) => reject(failure);
  }
}

function failed<Value>(status: number, where: string): Answer<Value> {
  return (_, reject) => reject(failureOf(status, { message: "simulated" }, where));
}

function refusal<Value>(simulation: Simulation, where: string): Answer<Value> {
  return failed(simulation.pick([429, 500, 503]) ?? 500, where);
}

/** As JSON has it: what the client changes afterwards is not sent. */
function copied(body: object): Json {
  return JSON.parse(JSON.stringify(body)) as Json;
}

/** What the store has is never changed; a client that changes an answer of the server would change the store. */
function frozen<Value>(value: Value): Value {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  for (const inner of Object.values(value)) frozen(inner);
  return Object.freeze(value);
}
