import { Failure } from "../failure/failure.ts";

/** Why a request failed, as far as callers act on it. */
export type ApiProblem =
  /** No connection, no whole answer in time, or an answer that is not the API's. */
  | "unreachable"
  /** 408, 429 and 5xx: overloaded, starting or failing. */
  | "unavailable"
  /** 401: the token is invalid; kubelet may be about to renew it. */
  | "unauthorized"
  /** 403: RBAC does not allow it. */
  | "forbidden"
  | "not-found"
  /** 409: an object of this name exists. */
  | "exists"
  /** 409: the object was changed, or a precondition does not hold. */
  | "conflict"
  /** 410: the resourceVersion or continue token is too old. */
  | "expired"
  /** Any other answer: the request is wrong. */
  | "invalid";

const RETRYABLE: readonly ApiProblem[] = ["unreachable", "unavailable", "unauthorized"];
/** A server that names a longer time is asked again after this one. */
const MAX_RETRY_AFTER_MS = 60_000;
const MAX_MESSAGE = 300;

/** A request to the API server that failed. */
export class ApiFailure extends Failure {
  readonly problem: ApiProblem;
  /** Whether the same request may succeed later. */
  readonly isRetryable: boolean;
  /** Milliseconds for which the server does not want to be asked again; 0 where it does not say. */
  readonly retryAfterMs: number;

  constructor(problem: ApiProblem, what: string, where: string, retryAfterMs = 0) {
    const isRetryable = RETRYABLE.includes(problem);
    const fix = problem === "forbidden" ? { fix: "grant the ServiceAccount this right" } : {};
    super({ code: isRetryable ? "kube-api-unavailable" : "kube-api-refused", what, where, ...fix });
    this.problem = problem;
    this.isRetryable = isRetryable;
    this.retryAfterMs = retryAfterMs;
  }
}

/** What an HTTP status and the `Status` object (meta/v1) in its body, or a proxy's text, mean. */
export function failureOf(status: number, body: unknown, where: string, retryAfter?: string): ApiFailure {
  const { message, reason } = (typeof body === "object" && body !== null ? body : { message: body }) as {
    readonly message?: unknown;
    readonly reason?: unknown;
  };
  const text = typeof message === "string" && message !== "" ? `: ${message.slice(0, MAX_MESSAGE)}` : "";
  // The header may also be a date, which the API server does not use.
  const seconds = Number(retryAfter);
  const retryAfterMs = seconds > 0 ? Math.min(seconds * 1000, MAX_RETRY_AFTER_MS) : 0;
  const what = `the Kubernetes API server answered ${status}${text}`;
  return new ApiFailure(problemOf(status, reason), what, where, retryAfterMs);
}

function problemOf(status: number, reason: unknown): ApiProblem {
  if (status === 401) return "unauthorized";
  if (status === 403) return "forbidden";
  if (status === 404) return "not-found";
  if (status === 409) return reason === "AlreadyExists" ? "exists" : "conflict";
  if (status === 410) return "expired";
  return status === 408 || status === 429 || status >= 500 ? "unavailable" : "invalid";
}
