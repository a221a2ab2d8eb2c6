import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { deviceKey } from "./check-resource.ts";

/** An object of a request, as JSON has it. */
export type Json = Readonly<Record<string, unknown>>;

/** An object that the store has. */
export interface Stored extends Json {
  readonly metadata: Json & { readonly name: string; readonly uid: string; readonly resourceVersion: string };
}

/** A refusal, as meta/v1 `Status` has it. */
export class Refusal extends Error {
  readonly code: number;
  readonly reason: string;

  constructor(code: number, reason: string, message: string) {
    super(message);
    this.code = code;
    this.reason = reason;
  }

  get status(): Json {
    const { code, reason, message } = this;
    return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message, reason, code };
  }
}

/** One line of a watch. */
export interface StoreEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly collection: string;
  readonly version: number;
  readonly object: Stored;
  /** What it was; undefined where it was not there. */
  readonly before: Stored | undefined;
}

/** Checks an object that is to be stored in place of another, and returns it as it is stored. */
export type Admission = (collection: string, object: Json, before: Stored | undefined) => Json;

/** Custom resources. */
const WITH_STATUS = ["addressspaces", "addresspools", "addressblocks", "addressallocations", "ipamclaims"];

/** Objects as etcd and the API server's registry keep them: versions, conflicts, finalizers, managers of fields. */
export class ObjectStore {
  readonly #objects = new Map<string, Stored>();
  readonly #managers = new Map<string, Map<string, string>>();
  readonly #history: StoreEvent[] = [];
  readonly #pages = new Map<string, { readonly rest: readonly Stored[]; readonly version: number }>();
  readonly #listeners = new Set<(event: StoreEvent) => void>();
  /** By object: who manages each entry of a claim's status.devices. */
  readonly #entries = new Map<string, Map<string, string>>();
  admit: Admission = (_, object) => object;
  #version = 100;
  /** Resources whose status is written by its subresource alone. */
  readonly withStatus = new Set(["examples", ...WITH_STATUS]);
  /** The uid of a new object. */
  newUid: () => string = randomUUID;
  /** Changes up to this version are forgotten. */
  #compacted = 0;

  get version(): number {
    return this.#version;
  }

  /** Forgets history and what lists have still to show, as etcd does every five minutes. */
  compact(): void {
    this.#compacted = this.#version;
    this.#history.length = 0;
    this.#pages.clear();
  }

  all(collection: string): readonly Stored[] {
    return [...this.#objects].flatMap(([key, object]) =>
      isPartOf(key.slice(0, key.lastIndexOf("/")), collection) ? [object] : [],
    );
  }

  find(collection: string, name: string): Stored | undefined {
    return this.#objects.get(`${collection}/${name}`);
  }

  get(collection: string, name: string): Stored {
    const object = this.find(collection, name);
    if (object === undefined) throw new Refusal(404, "NotFound", `${collection} "${name}" not found`);
    return object;
  }

  /** A page of at most `limit` objects that pass, as they were when the first page was made. */
  page(collection: string, passes: (object: Stored) => boolean, limit: number, token: string | null) {
    const kept = token === null ? undefined : this.#pages.get(token);
    if (token !== null && kept === undefined)
      throw new Refusal(410, "Expired", "The provided continue parameter is too old");
    const { rest, version } = kept ?? { rest: this.all(collection).filter(passes), version: this.#version };
    const items = limit > 0 ? rest.slice(0, limit) : rest;
    if (items.length === rest.length) return { items, version };
    const next = randomUUID();
    this.#pages.set(next, { rest: rest.slice(items.length), version });
    return { items, version, next };
  }

  create(collection: string, object: Json, isDryRun = false): Stored {
    const metadata = (object["metadata"] ?? {}) as Json;
    const name = metadata["name"];
    if (typeof name !== "string" || name === "")
      throw new Refusal(422, "Invalid", "name or generateName is required");
    if (metadata["resourceVersion"] !== undefined)
      throw new Refusal(400, "BadRequest", "resourceVersion should not be set on objects to be created");
    if (this.#objects.has(`${collection}/${name}`))
      throw new Refusal(409, "AlreadyExists", `${collection} "${name}" already exists`);
    const generation = this.#hasStatus(collection) ? { generation: 1 } : {};
    const creationTimestamp = new Date().toISOString();
    const made = { ...metadata, ...generation, name, uid: this.newUid(), creationTimestamp };
    const admitted = this.admit(collection, this.#withStatusOf(collection, object, undefined), undefined);
    if (isDryRun) return { ...admitted, metadata: { ...made, resourceVersion: "" } };
    return this.#store("ADDED", collection, { ...admitted, metadata: { ...made, resourceVersion: "" } });
  }

  update(collection: string, name: string, object: Json, part?: string): Stored {
    const metadata = (object["metadata"] ?? {}) as Json;
    if (metadata["name"] !== name)
      throw new Refusal(400, "BadRequest", "the name of the object does not match the name on the URL");
    const known = this.get(collection, name);
    if (metadata["resourceVersion"] === undefined)
      throw new Refusal(422, "Invalid", "metadata.resourceVersion: must be specified for an update");
    this.#checkSame(known, metadata);
    const whole = this.#withStatusOf(collection, object, known);
    return this.#change(collection, known, part === undefined ? whole : { ...known, [part]: object[part] });
  }

  merge(collection: string, name: string, patch: Json, part?: string): Stored {
    const known = this.get(collection, name);
    this.#checkSame(known, (patch["metadata"] ?? {}) as Json);
    const wanted = part === undefined ? patch : { [part]: patch[part] };
    const whole = merged(known, wanted) as Json;
    return this.#change(
      collection,
      known,
      part === undefined ? this.#withStatusOf(collection, whole, known) : whole,
    );
  }

  /** Server-side apply: a field of another manager is a conflict unless it is forced or has this value already. */
  apply(collection: string, name: string, body: Json, manager: string, isForced: boolean): Stored {
    if (typeof body["apiVersion"] !== "string" || typeof body["kind"] !== "string")
      throw new Refusal(400, "BadRequest", "apiVersion and kind must be set");
    const key = `${collection}/${name}`;
    const known = this.#objects.get(key);
    const managers = this.#managers.get(key) ?? new Map<string, string>();
    const { apiVersion: _, kind: __, metadata, ...fields } = this.#applyEntries(key, body, manager, isForced);
    for (const [path, value] of leaves(fields)) {
      const other = managers.get(path);
      const isForeign =
        other !== undefined && other !== manager && !isDeepStrictEqual(at(known, path), value);
      if (isForeign && !isForced)
        throw new Refusal(
          409,
          "Conflict",
          `Apply failed with 1 conflict: conflict with "${other}": .${path}`,
        );
      managers.set(path, manager);
    }
    this.#managers.set(key, managers);
    if (known === undefined) return this.create(collection, body);
    return this.#change(collection, known, merged(known, { ...fields, metadata }) as Json);
  }

  /** A claim's status.devices is a list by key: a manager's entries are those that it applied last, others' stay. */
  #applyEntries(object: string, body: Json, manager: string, isForced: boolean): Json {
    const known = this.#objects.get(object);
    const status = body["status"] as { readonly devices?: readonly Json[] } | undefined;
    if (!object.includes("/resourceclaims/") || status === undefined) return body;
    const { uid } = body["metadata"] as Json;
    if (known !== undefined && uid !== undefined && uid !== known.metadata.uid)
      throw new Refusal(422, "Invalid", "metadata.uid: field is immutable");
    if (known === undefined && uid !== undefined)
      throw new Refusal(
        409,
        "Conflict",
        `uid mismatch: the provided object specified uid ${uid}, and no existing object was found`,
      );
    if (known === undefined) throw new Refusal(404, "NotFound", `${object} not found`);
    const managers = this.#entries.get(object) ?? new Map<string, string>();
    this.#entries.set(object, managers);
    const wanted = status.devices ?? [];
    for (const key of wanted.map(deviceKey)) {
      const other = managers.get(key);
      if (other !== undefined && other !== manager && !isForced)
        throw new Refusal(409, "Conflict", `Apply failed with 1 conflict: conflict with "${other}": ${key}`);
    }
    const before = (at(known, "status.devices") ?? []) as readonly Json[];
    const kept = before.filter(
      (entry) =>
        managers.get(deviceKey(entry)) !== manager && !wanted.map(deviceKey).includes(deviceKey(entry)),
    );
    for (const [key, owner] of managers) if (owner === manager) managers.delete(key);
    for (const entry of wanted) managers.set(deviceKey(entry), manager);
    return { ...body, status: { ...status, devices: [...kept, ...wanted] } };
  }

  /** Removes an object, or marks it where it has finalizers. */
  remove(collection: string, name: string, preconditions: Json): Stored {
    const known = this.get(collection, name);
    this.#checkSame(known, preconditions);
    const finalizers = known.metadata["finalizers"];
    if (Array.isArray(finalizers) && finalizers.length > 0) {
      const metadata = { ...known.metadata, deletionTimestamp: new Date().toISOString() };
      return this.#store("MODIFIED", collection, { ...known, metadata });
    }
    return this.#store("DELETED", collection, known);
  }

  /**
   * Calls `listener` with every change after a version, those of the past at once. @returns a way to end it
   * @throws Refusal 410 where the version is forgotten
   */
  follow(after: number, listener: (event: StoreEvent) => void): () => void {
    if (after < this.#compacted)
      throw new Refusal(410, "Expired", `too old resource version: ${after} (${this.#compacted})`);
    for (const event of this.#history) if (event.version > after) listener(event);
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #hasStatus(collection: string): boolean {
    return this.withStatus.has(collection.slice(collection.lastIndexOf("/") + 1));
  }

  #withStatusOf(collection: string, object: Json, known: Stored | undefined): Json {
    if (!this.#hasStatus(collection)) return object;
    const { status: _, ...others } = object;
    return known?.["status"] === undefined ? others : { ...others, status: known["status"] };
  }

  #checkSame(known: Stored, wanted: Json): void {
    for (const field of ["uid", "resourceVersion"] as const)
      if (wanted[field] !== undefined && wanted[field] !== known.metadata[field])
        throw new Refusal(
          409,
          "Conflict",
          `the object has been modified: ${field} is ${known.metadata[field]}`,
        );
  }

  #change(collection: string, known: Stored, object: Json): Stored {
    const { uid, creationTimestamp } = known.metadata;
    const wanted = (object["metadata"] ?? {}) as Stored["metadata"];
    const admitted = this.admit(collection, object, known);
    const { generation = 1 } = known.metadata;
    // It grows with every change but those of metadata and status.
    const next = {
      generation: Number(generation) + (isDeepStrictEqual(bare(admitted), bare(known)) ? 0 : 1),
    };
    const counted = this.#hasStatus(collection) ? next : {};
    const metadata: Stored["metadata"] = { ...wanted, ...counted, uid, creationTimestamp };
    const changed = { ...admitted, metadata };
    const version = { resourceVersion: known.metadata.resourceVersion };
    // A write that changes nothing makes no version.
    if (isDeepStrictEqual({ ...changed, metadata: { ...metadata, ...version } }, known)) return known;
    const { deletionTimestamp, finalizers } = metadata;
    const isGone = deletionTimestamp !== undefined && (!Array.isArray(finalizers) || finalizers.length === 0);
    return this.#store(isGone ? "DELETED" : "MODIFIED", collection, changed);
  }

  #store(type: StoreEvent["type"], collection: string, object: Stored): Stored {
    this.#version += 1;
    const resourceVersion = String(this.#version);
    const stored = { ...object, metadata: { ...object.metadata, resourceVersion } };
    const key = `${collection}/${object.metadata.name}`;
    const before = this.#objects.get(key);
    if (type === "DELETED") {
      this.#objects.delete(key);
      this.#managers.delete(key);
    } else this.#objects.set(key, stored);
    const event = { type, collection, version: this.#version, object: stored, before };
    this.#history.push(event);
    for (const listener of this.#listeners) listener(event);
    return stored;
  }
}

/** Whether objects of one collection belong to another: a resource without a namespace is that of all namespaces. */
export function isPartOf(collection: string, of: string): boolean {
  return collection === of || collection.endsWith(`/${of}`);
}

/** Without metadata and status. */
function bare({ metadata: _, status: __, ...others }: Json): Json {
  return others;
}

/** RFC 7386. */
function merged(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const result: Record<string, unknown> = isRecord(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch))
    if (value === null) delete result[key];
    else result[key] = merged(result[key], value);
  return result;
}

function leaves(value: unknown, path = ""): readonly (readonly [string, unknown])[] {
  if (!isRecord(value)) return [[path, value]];
  return Object.entries(value).flatMap(([key, inner]) => leaves(inner, path === "" ? key : `${path}.${key}`));
}

/** The value at a path such as `metadata.name`. */
export function at(value: unknown, path: string): unknown {
  return path.split(".").reduce((inner, key) => (isRecord(inner) ? inner[key] : undefined), value);
}

function isRecord(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
