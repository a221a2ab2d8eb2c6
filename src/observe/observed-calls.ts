import type { FailureCode } from "../failure/catalogue.ts";
import { toFailure } from "../failure/failure.ts";
import type { Metrics } from "./metrics.ts";

/** Where a failure was seen. */
export type ErrorSource = "allocation" | "cni" | "dataplane" | "pod-resources" | "reconcile";

/** `ok`, or what the call failed with. */
export type CallCode = "ok" | FailureCode;

/** The part of a CNI answer that is counted. */
export interface CniOutcome {
  readonly exitCode: number;
  /** Code of the failure that the answer tells of. */
  readonly failure?: FailureCode;
}

/** Verbs of the CNI spec 1.1.0; anything else that a caller makes up is one series. */
const VERBS = new Set(["ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"]);

/** Counts a failure by its code. */
export function countError(metrics: Metrics, source: ErrorSource, code: FailureCode): void {
  metrics.count("vhostuser_errors_total", { source, code });
}

const SOURCES: readonly ErrorSource[] = ["allocation", "cni", "dataplane", "pod-resources", "reconcile"];
/** Failures of which a single one is to wake somebody. */
const GRAVE: readonly FailureCode[] = ["internal", "directory-unsafe"];

/** Makes the series of events that may never have happened appear with 0. */
export function collectZeros(metrics: Metrics): void {
  for (const verb of VERBS) metrics.count("vhostuser_cni_requests_total", { verb, code: "ok" }, 0);
  for (const outcome of ["ok", "failed"]) metrics.count("vhostuser_announcements_total", { outcome }, 0);
  for (const source of SOURCES) {
    for (const code of GRAVE) metrics.count("vhostuser_errors_total", { source, code }, 0);
  }
}

/** Counts and times what answers the container runtime. */
export function observeCni<
  Request extends { readonly env: Readonly<Record<string, string>> },
  Answer extends CniOutcome,
>(
  metrics: Metrics,
  answer: (request: Request, signal: AbortSignal) => Promise<Answer>,
): (request: Request, signal: AbortSignal) => Promise<Answer> {
  return async (request, signal) => {
    const command = request.env["CNI_COMMAND"] ?? "";
    const verb = VERBS.has(command) ? command : "other";
    const codeOf = ({ exitCode, failure }: Answer): CallCode =>
      exitCode === 0 ? "ok" : (failure ?? "internal");
    return timed(
      () => answer(request, signal),
      codeOf,
      (code, seconds) => {
        const outcome = outcomeOf(code);
        metrics.count("vhostuser_cni_requests_total", { verb, code });
        metrics.observe("vhostuser_cni_request_duration_seconds", { verb, outcome }, seconds);
        if (code !== "ok") countError(metrics, "cni", code);
      },
    );
  };
}

/** Counts and times what answers Allocate for a container. */
export function observeAllocations<Call extends readonly unknown[], Answer>(
  metrics: Metrics,
  pool: string,
  allocate: (...call: Call) => Promise<Answer>,
): (...call: Call) => Promise<Answer> {
  for (const outcome of ["ok", "failed"])
    metrics.zero("vhostuser_allocation_duration_seconds", { pool, outcome });
  return (...call) =>
    timed(
      () => allocate(...call),
      () => "ok",
      (code, seconds) => {
        const outcome = outcomeOf(code);
        metrics.count("vhostuser_allocations_total", { pool, code });
        metrics.observe("vhostuser_allocation_duration_seconds", { pool, outcome }, seconds);
        if (code !== "ok") countError(metrics, "allocation", code);
      },
    );
}

/** Times reads of PodResources. */
export function observePodResources<Pods>(
  metrics: Metrics,
  listPods: (signal: AbortSignal) => Promise<Pods>,
): (signal: AbortSignal) => Promise<Pods> {
  for (const outcome of ["ok", "failed"])
    metrics.zero("vhostuser_pod_resources_duration_seconds", { outcome });
  return (signal) =>
    timed(
      () => listPods(signal),
      () => "ok",
      (code, seconds) => {
        const outcome = outcomeOf(code);
        metrics.observe("vhostuser_pod_resources_duration_seconds", { outcome }, seconds);
        if (code !== "ok") countError(metrics, "pod-resources", code);
      },
    );
}

/** The label of a duration, coarser than a code so that a histogram stays small. */
export function outcomeOf(code: CallCode): "ok" | "failed" {
  return code === "ok" ? "ok" : "failed";
}

/** Runs a call and reports how it ended and how many seconds it took; the call's result or error stays as it is. */
export async function timed<Value>(
  call: () => Promise<Value>,
  codeOf: (value: Value) => CallCode,
  report: (code: CallCode, seconds: number, value?: Value) => void,
): Promise<Value> {
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  let value: Value;
  try {
    value = await call();
  } catch (error) {
    report(toFailure(error).code, seconds());
    throw error;
  }
  report(codeOf(value), seconds(), value);
  return value;
}
