import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { loadService } from "../../../src/grpc/load-service.ts";
import { dialUnix } from "../../../src/grpc/unix-client.ts";
import type { VirtualMachineInstance } from "./vmi.ts";

/** KubeVirt's numbers; tests shorten `collectTimeoutMs` and nothing else. */
export interface HookManagerOptions {
  /** `/var/run/kubevirt-hooks` as the compute container sees it. */
  readonly hooksDirectory: string;
  /** `nested` since 1.6: one sub-directory per sidecar. `flat` before. */
  readonly layout: "nested" | "flat";
  readonly collectTimeoutMs?: number;
  readonly callbackDeadlineMs?: number;
  /** Newest first; what virt-launcher had before 1.2 lacks the first. */
  readonly knownVersions?: readonly string[];
}

/** A sidecar that answered Info. */
export interface CollectedHook {
  readonly path: string;
  readonly name: string;
  readonly version: string;
  readonly hookPoints: readonly string[];
}

interface InfoResult {
  readonly name: string;
  readonly hookPoints: readonly { readonly name: string; readonly priority: number }[];
  readonly versions: readonly string[];
}

const ROUND_MS = 300;
const DIAL_MS = 2_000;
/** The real one gives it one second, in which a busy machine may stall. */
const INFO_DEADLINE_MS = 10_000;
const CALLBACK_DEADLINE_MS = 60_000;
const COLLECT_TIMEOUT_MS = 240_000;
/** Newest first, as virt-launcher chooses. */
const KNOWN_VERSIONS = ["v1alpha3", "v1alpha2", "v1alpha1"];

const infoService = loadService("kubevirt/hooks-info.proto", "kubevirt.hooks.info.Info");
const callbackServices: Readonly<Record<string, ReturnType<typeof loadService>>> = Object.fromEntries(
  KNOWN_VERSIONS.map((version) => [
    version,
    loadService(`kubevirt/hooks-${version}.proto`, `kubevirt.hooks.${version}.Callbacks`),
  ]),
);

/** virt-launcher's side of the hook protocol, as strict and as forgiving as the real one. */
export class HookManager {
  readonly #options: HookManagerOptions;
  #hooks: CollectedHook[] = [];

  constructor(options: HookManagerOptions) {
    this.#options = options;
  }

  /** In the order in which they were found: that is the order of the calls, whatever their priority. */
  get hooks(): readonly CollectedHook[] {
    return this.#hooks;
  }

  /**
   * Finds `count` sidecars. Throws where the real virt-launcher panics: a sidecar's Info fails, it speaks no known
   * version, or the time is over.
   */
  async collect(count: number): Promise<readonly CollectedHook[]> {
    const deadline = Date.now() + (this.#options.collectTimeoutMs ?? COLLECT_TIMEOUT_MS);
    const processed = new Set<string>();
    while (processed.size < count) {
      for (const { path, baseName } of await this.#candidates()) {
        if (processed.has(baseName)) continue;
        const hook = await this.#introduce(path);
        if (hook === undefined) continue;
        processed.add(baseName);
        this.#hooks.push(hook);
      }
      if (processed.size >= count) break;
      if (Date.now() >= deadline) {
        throw new Error(
          `Failed to collect all expected sidecar hook sockets within given timeout: ${processed.size} of ${count}`,
        );
      }
      await delay(ROUND_MS);
    }
    return this.#hooks;
  }

  /** Runs the domain through all sidecars; the output of one is the input of the next. */
  async onDefineDomain(xml: string, vmi: VirtualMachineInstance): Promise<string> {
    const encoded = Buffer.from(JSON.stringify(vmi));
    let domainXML: Buffer = Buffer.from(xml);
    for (const hook of this.#announcing("OnDefineDomain")) {
      const answer = await this.#call<{ domainXML: Buffer }>(hook, "OnDefineDomain", {
        domainXML,
        vmi: encoded,
      });
      domainXML = answer.domainXML;
    }
    return domainXML.toString("utf8");
  }

  /** After QEMU is gone. */
  async shutdown(): Promise<void> {
    for (const hook of this.#announcing("Shutdown")) await this.#call(hook, "Shutdown", {});
  }

  #announcing(hookPoint: string): readonly CollectedHook[] {
    return this.#hooks.filter((hook) => hook.hookPoints.includes(hookPoint));
  }

  async #candidates(): Promise<{ path: string; baseName: string }[]> {
    const { hooksDirectory, layout } = this.#options;
    if (layout === "flat") return socketsIn(hooksDirectory);
    const entries = await sorted(hooksDirectory);
    const directories = entries.filter((entry) => entry.isDirectory());
    const nested = await Promise.all(directories.map((entry) => socketsIn(join(hooksDirectory, entry.name))));
    return nested.flat();
  }

  /** Undefined where nothing answers yet: the next round retries. */
  async #introduce(path: string): Promise<CollectedHook | undefined> {
    const client = dialUnix(infoService, path);
    try {
      const connected = await new Promise<boolean>((resolve) => {
        client.raw.waitForReady(Date.now() + DIAL_MS, (error) =>
          resolve(error === undefined || error === null),
        );
      });
      if (!connected) return undefined;
      const info = await client.call<InfoResult>("Info", {}, INFO_DEADLINE_MS);
      const version = (this.#options.knownVersions ?? KNOWN_VERSIONS).find((known) =>
        info.versions.includes(known),
      );
      if (version === undefined)
        throw new Error(`Hook sidecar does not expose a supported version: ${info.versions}`);
      return { path, name: info.name, version, hookPoints: info.hookPoints.map((point) => point.name) };
    } finally {
      client.close();
    }
  }

  async #call<Answer>(hook: CollectedHook, method: string, request: object): Promise<Answer> {
    const service = callbackServices[hook.version];
    if (service === undefined) throw new Error(`the stand-in cannot call ${hook.version} yet`);
    const client = dialUnix(service, hook.path);
    try {
      return await client.call<Answer>(
        method,
        request,
        this.#options.callbackDeadlineMs ?? CALLBACK_DEADLINE_MS,
      );
    } finally {
      client.close();
    }
  }
}

async function sorted(directory: string) {
  const entries = await readdir(directory, { withFileTypes: true });
  return entries.sort((left, right) => (left.name < right.name ? -1 : 1));
}

/** Every entry that is no directory, links included. */
async function socketsIn(directory: string): Promise<{ path: string; baseName: string }[]> {
  const entries = await sorted(directory);
  return entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => ({ path: join(directory, entry.name), baseName: entry.name }));
}
