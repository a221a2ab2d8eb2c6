import { type Answer, WARNING_VERBS } from "../cni/answer.ts";
import type { RawRequest } from "../cni/request.ts";
import type { FailureCode } from "../failure/catalogue.ts";
import { toFailure } from "../failure/failure.ts";
import type { Metrics } from "./metrics.ts";

/** Where failures are seen. */
const SOURCES = ["allocation", "claim", "cni", "dataplane", "pod-resources", "reconcile"] as const;
type ErrorSource = (typeof SOURCES)[number];
/** Verbs of the CNI spec 1.1.0; anything else is one series. */
const VERBS = new Set(["ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"]);
const OUTCOMES = ["ok", "failed"] as const;
const GUEST_REQUESTS = ["answered", "dropped", "ignored"] as const;
/** Failures that an alert reports at the first one, so their series must begin at 0. */
const GRAVE: readonly FailureCode[] = ["internal", "directory-unsafe"];

/** `ok`, or what a call failed with. */
export type CallCode = "ok" | FailureCode;

/** Counts a failure by its code. */
export function countError(metrics: Metrics, source: ErrorSource, code: FailureCode): void {
  metrics.count("vhostuser_errors_total", { source, code });
}

/** Makes series appear at 0, so that `increase()` sees the first event. */
export function collectZeros(metrics: Metrics): void {
  for (const verb of VERBS) metrics.count("vhostuser_cni_requests_total", { verb, code: "ok" }, 0);
  for (const verb of WARNING_VERBS) metrics.count("vhostuser_cni_unknown_keys_total", { verb }, 0);
  for (const outcome of OUTCOMES) metrics.count("vhostuser_announcements_total", { outcome }, 0);
  for (const outcome of GUEST_REQUESTS)
    metrics.count("vhostuser_guest_address_requests_total", { outcome }, 0);
  for (const source of SOURCES)
    for (const code of GRAVE) metrics.count("vhostuser_errors_total", { source, code }, 0);
}

/** Counts and times what answers the container runtime. */
export function observeCni<Request extends Pick<RawRequest, "env">>(
  metrics: Metrics,
  answer: (request: Request, signal: AbortSignal) => Promise<Answer>,
): (request: Request, signal: AbortSignal) => Promise<Answer> {
  return (request, signal) => {
    const { CNI_COMMAND: command = "" } = request.env;
    const verb = VERBS.has(command) ? command : "other";
    const report = (code: CallCode, seconds: number, answered?: Answer) => {
      metrics.count("vhostuser_cni_requests_total", { verb, code });
      metrics.observe("vhostuser_cni_request_duration_seconds", { verb, outcome: outcomeOf(code) }, seconds);
      if (code !== "ok") countError(metrics, "cni", code);
      const { ignoredKeys = [] } = answered ?? {};
      if (WARNING_VERBS.has(verb))
        metrics.count("vhostuser_cni_unknown_keys_total", { verb }, ignoredKeys.length);
    };
    return timed(
      () => answer(request, signal),
      report,
      ({ failure }) => failure?.code ?? "ok",
    );
  };
}

/** Counts and times what answers Allocate for a container of one pool. */
export function observeAllocations<Call extends readonly unknown[], Answer>(
  metrics: Metrics,
  pool: string,
  allocate: (...call: Call) => Promise<Answer>,
): (...call: Call) => Promise<Answer> {
  for (const outcome of OUTCOMES) metrics.zero("vhostuser_allocation_duration_seconds", { pool, outcome });
  const report = (code: CallCode, seconds: number) => {
    metrics.count("vhostuser_allocations_total", { pool, code });
    metrics.observe("vhostuser_allocation_duration_seconds", { pool, outcome: outcomeOf(code) }, seconds);
    if (code !== "ok") countError(metrics, "allocation", code);
  };
  return (...call) => timed(() => allocate(...call), report);
}

/** Counts and times kubelet's calls about claims. */
export function observeClaims<Call extends readonly unknown[], Answer>(
  metrics: Metrics,
  call: "prepare" | "unprepare",
  serve: (...args: Call) => Promise<Answer>,
): (...args: Call) => Promise<Answer> {
  for (const outcome of OUTCOMES) metrics.zero("vhostuser_claim_call_duration_seconds", { call, outcome });
  const report = (code: CallCode, seconds: number) => {
    metrics.count("vhostuser_claim_calls_total", { call, code });
    metrics.observe("vhostuser_claim_call_duration_seconds", { call, outcome: outcomeOf(code) }, seconds);
    if (code !== "ok") countError(metrics, "claim", code);
  };
  return (...args) => timed(() => serve(...args), report);
}

/** Times reads of PodResources. */
export function observePodResources<Pods>(
  metrics: Metrics,
  listPods: (signal: AbortSignal) => Promise<Pods>,
): (signal: AbortSignal) => Promise<Pods> {
  for (const outcome of OUTCOMES) metrics.zero("vhostuser_pod_resources_duration_seconds", { outcome });
  const report = (code: CallCode, seconds: number) => {
    metrics.observe("vhostuser_pod_resources_duration_seconds", { outcome: outcomeOf(code) }, seconds);
    if (code !== "ok") countError(metrics, "pod-resources", code);
  };
  return (signal) => timed(() => listPods(signal), report);
}

/** The label of a duration, coarser than a code so that a histogram stays small. */
export function outcomeOf(code: CallCode): (typeof OUTCOMES)[number] {
  return code === "ok" ? "ok" : "failed";
}

/** Runs a call and reports how it ended and how many seconds it took; its result or error stays as it is. */
export async function timed<Value>(
  call: () => Promise<Value>,
  report: (code: CallCode, seconds: number, value?: Value) => void,
  codeOf: (value: Value) => CallCode = () => "ok",
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
