import { join } from "node:path";
import { loadPackageDefinition, type ServiceClientConstructor, type ServiceDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

/** A service of a .proto file, ready to serve or to dial. */
export interface LoadedService {
  readonly definition: ServiceDefinition;
  readonly Client: ServiceClientConstructor;
}

/** Two folders up from src/grpc and, in an image or a build, from dist/<program>: both have proto/ beside them. */
const PROTO_ROOT = join(import.meta.dirname, "../../proto");

/**
 * Loads one service out of one file under proto/, in a root of its own, because `v1` and `v1beta1` are unqualified
 * package names that several of kubelet's files share. Field names stay as written (`devices_ids`, `domainXML`).
 * @param file for example `kubelet/device-plugin-v1beta1.proto`
 * @param fullName package and service, for example `v1beta1.DevicePlugin`
 */
export function loadService(file: string, fullName: string): LoadedService {
  const definition = loadSync(join(PROTO_ROOT, file), {
    keepCase: true,
    longs: Number,
    enums: String,
    defaults: true,
    arrays: true,
    objects: true,
  });
  let found: unknown = loadPackageDefinition(definition);
  for (const part of fullName.split(".")) found = (found as Record<string, unknown> | undefined)?.[part];
  if (typeof found !== "function") throw new TypeError(`no service ${fullName} in ${file}`);
  const Client = found as ServiceClientConstructor;
  return { definition: Client.service, Client };
}
