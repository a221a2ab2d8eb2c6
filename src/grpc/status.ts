import { type ServiceError, status } from "@grpc/grpc-js";
import type { FailureCode } from "../failure/catalogue.ts";
import { toFailure } from "../failure/failure.ts";

const STATUS: Partial<Record<FailureCode, status>> = {
  "invalid-request": status.INVALID_ARGUMENT,
  "invalid-vmi": status.INVALID_ARGUMENT,
  "invalid-domain": status.INVALID_ARGUMENT,
  "invalid-network-info": status.FAILED_PRECONDITION,
  "network-info-timeout": status.UNAVAILABLE,
  "unknown-device": status.NOT_FOUND,
  "kubelet-unavailable": status.UNAVAILABLE,
  "dataplane-unavailable": status.UNAVAILABLE,
  "dataplane-misconfigured": status.FAILED_PRECONDITION,
  "path-too-long": status.FAILED_PRECONDITION,
  "directory-unsafe": status.FAILED_PRECONDITION,
};

/** The message travels in an HTTP/2 header, and may quote what a hostile caller sent. */
const MESSAGE_MAX = 1_000;

type Status = Pick<ServiceError, "code" | "details" | "message" | "name">;

/** A failure as a gRPC status; codes that are not listed are INTERNAL. Its text can always be sent. */
export function toServiceError(thrown: unknown): Status {
  const { code, message } = toFailure(thrown);
  return {
    name: code,
    code: STATUS[code] ?? status.INTERNAL,
    details: sendable(message),
    message: sendable(message),
  };
}

/** Answers a call with a failure; an answer that cannot be sent does not end the process. */
export function respondWithFailure(respond: (error: Status) => void, thrown: unknown): void {
  try {
    respond(toServiceError(thrown));
  } catch (error) {
    respond(toServiceError(new Error("the failure cannot be sent", { cause: error })));
  }
}

/** A text that a message can carry: cut in the middle, because the end says what to do, and without half a surrogate pair. */
export function sendable(text: string): string {
  const half = MESSAGE_MAX / 2;
  const cut = text.length <= MESSAGE_MAX ? text : `${text.slice(0, half - 5)} ... ${text.slice(-half)}`;
  return cut.toWellFormed();
}
