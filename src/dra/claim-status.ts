// Writes what became of a claim's devices into its status (KEP-4817), in the background.
import { describeThrown, type Failure } from "../failure/failure.ts";
import { ApiFailure } from "../kube-api/api-failure.ts";
import type { KubeApi } from "../kube-api/client.ts";
import type { Logger } from "../logging/logger.ts";
import { present } from "../names/present.ts";
import type { Clock } from "../sync/clock.ts";
import { exponentialBackoff, WorkQueue } from "../sync/work-queue.ts";
import { type ClaimReport, type DeviceReport, DRA_DRIVER } from "./dra-context.ts";

/** What a status is written with. */
export interface ClaimStatusOptions {
  readonly api: Pick<KubeApi, "patch">;
  /** Whose devices they are; default this driver's. */
  readonly driver?: string;
  /** The reason of the condition `Ready`; default `PortAttached`, or the problem's code in camel case. */
  readonly reasonOf?: (problem: Failure | undefined) => string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A report with the time when each of its devices became what it is, in milliseconds since the epoch. */
interface Dated {
  readonly report: ClaimReport;
  readonly since: readonly number[];
}

const OBJECT = { apiVersion: "resource.k8s.io/v1", kind: "ResourceClaim" };
const MAX_MESSAGE = 1_024;
const MAX_IPS = 16;
/** A boot prepares dozens of claims at a time. */
const WORKERS = 4;
/** Of this many claims it is known what was written last. */
const KNOWN_MAX = 2_000;

/**
 * Writes reports by server-side apply under our own field manager, so that others' entries stay; a report that comes
 * while an older one waits replaces it, and one that says nothing else is not written again.
 */
export class ClaimStatusWriter {
  readonly #options: ClaimStatusOptions;
  readonly #driver: string;
  readonly #reasonOf: (problem: Failure | undefined) => string;
  readonly #queue: WorkQueue;
  readonly #closing = new AbortController();
  readonly #running: Promise<void>;
  /** By the claim's uid: what is to be written. */
  readonly #waiting = new Map<string, Dated>();
  /** By the claim's uid: what was reported last. */
  readonly #known = new Map<string, Dated>();
  #hasWarned = false;

  constructor(options: ClaimStatusOptions) {
    this.#options = options;
    this.#driver = options.driver ?? DRA_DRIVER;
    this.#reasonOf = options.reasonOf ?? portReason;
    this.#queue = new WorkQueue({
      work: (uid, signal) => this.#write(uid, signal),
      backoffMs: exponentialBackoff(200, 60_000),
      onFailure: (uid, error) => this.#warn(uid, error),
      workers: WORKERS,
      clock: options.clock,
    });
    this.#running = this.#queue.run(this.#closing.signal);
  }

  /** Takes no time and never throws. */
  report(report: ClaimReport): void {
    const { uid } = report.claim;
    const known = this.#known.get(uid);
    const dated = { report, since: report.devices.map((device) => this.#since(device, known)) };
    if (known !== undefined && this.#textOf(known) === this.#textOf(dated)) return;
    this.#known.delete(uid);
    this.#known.set(uid, dated);
    const [oldest] = this.#known.keys();
    if (this.#known.size > KNOWN_MAX && oldest !== undefined) this.#known.delete(oldest);
    this.#waiting.set(uid, dated);
    this.#queue.add(uid);
  }

  /** Ends at once; what waits is not written, and is reported again when kubelet prepares the claim again. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  async #write(uid: string, signal: AbortSignal): Promise<void> {
    const dated = this.#waiting.get(uid);
    if (dated === undefined) return;
    const { namespace, name } = dated.report.claim;
    const to = { group: "resource.k8s.io", version: "v1", plural: "resourceclaims", subresource: "status" };
    const body = { ...OBJECT, metadata: { name, namespace, uid }, status: this.#statusOf(dated) };
    const apply = { type: "apply", fieldManager: this.#driver, force: true, body } as const;
    try {
      await this.#options.api.patch({ ...to, namespace }, name, apply, signal);
      this.#hasWarned = false;
    } catch (error) {
      // One that was made again under another uid, or has other devices by now, is invalid.
      if (error instanceof ApiFailure && error.problem === "invalid" && !isRightMissing(error))
        this.#warn(uid, error);
      else if (!isGone(error)) throw error;
    }
    if (this.#waiting.get(uid) === dated) this.#waiting.delete(uid);
  }

  #textOf(dated: Dated): string {
    return JSON.stringify([dated.report.claim, this.#statusOf(dated)]);
  }

  /** The fields of the status that are ours (resource.k8s.io/v1, ResourceClaimStatus). */
  #statusOf({ report, since }: Dated): object {
    return {
      devices: report.devices.map((device, index) => ({
        driver: this.#driver,
        ...entryOf(device, this.#reasonOf(device.problem), since[index] ?? 0),
      })),
    };
  }

  /** A port is ready since it was made; a problem of the same code since it was reported first. */
  #since({ problem, port, made, ...device }: DeviceReport, known: Dated | undefined): number {
    if (problem === undefined && port !== undefined) return port.createdAt;
    if (problem === undefined && made !== undefined) return made.since;
    const index = known?.report.devices.findIndex(
      (one) =>
        one.device === device.device && one.shareID === device.shareID && one.problem?.code === problem?.code,
    );
    return known?.since[index ?? -1] ?? this.#options.clock.now();
  }

  /** Once until a status is written again. */
  #warn(uid: string, error: unknown): void {
    const { namespace, name } = this.#waiting.get(uid)?.report.claim ?? {};
    const fields = { claim: `${namespace}/${name}`, reason: describeThrown(error) };
    if (this.#hasWarned) this.#options.logger.debug(fields, "a claim's status cannot be written");
    else this.#options.logger.warn(fields, "a claim's status cannot be written");
    this.#hasWarned = true;
  }
}

/** An apply that names the uid of a claim that is gone would make it again, which the API server calls a conflict. */
function isGone(error: unknown): boolean {
  if (!(error instanceof ApiFailure)) return false;
  return (
    error.problem === "not-found" || (error.problem === "conflict" && error.what.includes("uid mismatch"))
  );
}

/** The API server calls that invalid too (DRAResourceClaimGranularStatusAuthorization). */
function isRightMissing({ what }: ApiFailure): boolean {
  return what.includes("resourceclaims/driver");
}

/** One device (resource.k8s.io/v1, AllocatedDeviceStatus). */
function entryOf(
  { pool, device, shareID, problem, conditions = [], port, interfaceName, socketPath, made }: DeviceReport,
  reason: string,
  since: number,
): object {
  const { portName, bridge, mtu, mac, lease } = port ?? {};
  const ips = lease?.given?.ips.slice(0, MAX_IPS).map(({ address }) => address);
  return present({
    ...{ pool, device, shareID },
    conditions: [
      conditionOf("Ready", problem === undefined, reason, problem, since),
      ...conditions.map((one) =>
        conditionOf(one.type, true, conditionReason(one.problem.code), one.problem, one.since),
      ),
    ],
    data: port ? present({ port: portName, bridge, mtu, socketPath }) : made?.data,
    networkData: port
      ? present({ interfaceName: interfaceName ?? port.interfaceName, hardwareAddress: mac, ips })
      : made?.networkData,
  });
}

/** A condition (meta/v1). */
function conditionOf(
  type: string,
  isTrue: boolean,
  reason: string,
  problem: Failure | undefined,
  since: number,
): object {
  return {
    ...{ type, status: isTrue ? "True" : "False", reason },
    message: problem?.message.slice(0, MAX_MESSAGE).toWellFormed() ?? "",
    lastTransitionTime: new Date(since).toISOString().replace(/\.\d+Z$/, "Z"),
  };
}

function portReason(problem: Failure | undefined): string {
  return problem === undefined ? "PortAttached" : conditionReason(problem.code);
}

/** A code as conditions spell reasons: `bridge-missing` is `BridgeMissing`. */
function conditionReason(code: Failure["code"]): string {
  return code.replace(/(?:^|-)([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
