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
  "dataplane-unfit": status.FAILED_PRECONDITION,
  "path-too-long": status.FAILED_PRECONDITION,
  "directory-unsafe": status.FAILED_PRECONDITION,
};

/** A failure as what a gRPC handler hands to its callback; everything not listed is INTERNAL. */
export function toServiceError(thrown: unknown): Pick<ServiceError, "code" | "details" | "message" | "name"> {
  const failure = toFailure(thrown);
  return {
    name: failure.code,
    code: STATUS[failure.code] ?? status.INTERNAL,
    details: `${failure.code}: ${failure.message}`,
    message: failure.message,
  };
}
