import { join } from "node:path";
import { loadSync, type Options, type PackageDefinition } from "@grpc/proto-loader";

/** How messages are read: field names stay as written (`devices_ids`, `domainXML`), missing fields get their defaults. */
export const MESSAGE_OPTIONS = {
  keepCase: true,
  longs: Number,
  enums: String,
  defaults: true,
  arrays: true,
  objects: true,
} as const satisfies Options;

/**
 * The services of one file under proto/, by their full names. A bundle has generated code in place of this function
 * and of the parser: scripts/build/generated-protos.ts.
 */
export function readProto(file: string): PackageDefinition {
  return loadSync(join(import.meta.dirname, "../../proto", file), MESSAGE_OPTIONS);
}
