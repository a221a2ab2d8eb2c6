import type { KubeApi, KubeObject, Resource } from "../kube-api/client.ts";
import { type WatchOptions, watchResource } from "../kube-api/watch.ts";

/** What is mirrored of a resource. */
export interface MirrorOptions<Entry> {
  readonly resource: Resource;
  /** Names an object among those of its resource; default its name. */
  readonly keyOf?: (object: KubeObject) => string;
  /** What is kept of an object: all others of its fields are let go at once. */
  readonly entryOf: (object: KubeObject) => Entry;
  /** Called for every entry that is added, replaced or removed. */
  readonly onChange?: (key: string, before: Entry | undefined, after: Entry | undefined) => void;
}

/** What a mirror follows its resource with. */
export type FollowOptions = Pick<WatchOptions, "clock" | "onFailure" | "random"> & {
  readonly api: Pick<KubeApi, "list" | "openWatch">;
};

/**
 * A resource's objects as a watch shows them, each reduced to what its reader needs: a hint, because it may be old. What
 * depends on it reads the object again, or writes with its resourceVersion.
 */
export class Mirror<Entry> {
  readonly entries = new Map<string, Entry>();
  readonly #options: MirrorOptions<Entry>;
  #synced = Promise.withResolvers<void>();
  #isSynced = false;

  constructor(options: MirrorOptions<Entry>) {
    this.#options = options;
  }

  /** Whether all objects were listed once. */
  get isSynced(): boolean {
    return this.#isSynced;
  }

  whenSynced(): Promise<void> {
    return this.#synced.promise;
  }

  /** Follows the resource until the signal fires; rejects with its reason then. */
  async follow(options: FollowOptions, signal: AbortSignal): Promise<never> {
    const { resource } = this.#options;
    const changes = watchResource({ ...options, resource, keep: (object) => this.#kept(object) }, signal);
    for await (const change of changes) {
      if (change.kind === "all") this.#replace(change.objects);
      else this.#set(change.object, change.kind === "removed");
    }
    throw new Error("a watch ended without its signal");
  }

  /** As an object, because that is what a watch yields. */
  #kept(object: KubeObject): KubeObject {
    const { keyOf = nameOf, entryOf } = this.#options;
    return { metadata: { name: keyOf(object) }, entry: entryOf(object) };
  }

  #set({ metadata: { name: key }, ...object }: KubeObject, isRemoved: boolean): void {
    const before = this.entries.get(key);
    const after = isRemoved ? undefined : (object["entry"] as Entry);
    if (after === undefined) this.entries.delete(key);
    else this.entries.set(key, after);
    this.#options.onChange?.(key, before, after);
  }

  #replace(objects: readonly KubeObject[]): void {
    const gone = new Set(this.entries.keys());
    for (const object of objects) {
      gone.delete(object.metadata.name);
      this.#set(object, false);
    }
    for (const name of gone) this.#set({ metadata: { name } }, true);
    this.#isSynced = true;
    this.#synced.resolve();
  }
}

function nameOf({ metadata: { name } }: KubeObject): string {
  return name;
}
