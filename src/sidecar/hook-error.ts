import type { ServiceError } from "@grpc/grpc-js";
import { toServiceError } from "../grpc/status.ts";

/** An event of Kubernetes shows about so much, and an HTTP/2 header doesn't hold everything that a hostile VMI quotes. */
const LONGEST = 1_000;

/** A failure as the caller of a hook gets it; cut in the middle, because its end says what to do. */
export function hookError(thrown: unknown): Pick<ServiceError, "code" | "details" | "message" | "name"> {
  const error = toServiceError(thrown);
  return { ...error, details: shortened(error.details), message: shortened(error.message) };
}

function shortened(text: string): string {
  if (text.length <= LONGEST) return text;
  const half = (LONGEST - 5) / 2;
  return `${text.slice(0, Math.ceil(half))} ... ${text.slice(-Math.floor(half))}`;
}
