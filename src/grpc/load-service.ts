import { makeClientConstructor, type ServiceClientConstructor, type ServiceDefinition } from "@grpc/grpc-js";
import { readProto } from "./read-proto.ts";

/** A service of a .proto file, ready to serve or to dial. */
export interface LoadedService {
  readonly definition: ServiceDefinition;
  readonly Client: ServiceClientConstructor;
}

/**
 * Loads one service of a file under proto/. Each file has a root of its own, because `v1` and `v1beta1` are
 * unqualified package names that several of kubelet's files share.
 * @param file for example `kubelet/device-plugin-v1beta1.proto`
 * @param fullName package and service, for example `v1beta1.DevicePlugin`
 * @param readers how a client reads the answers to some methods, instead of as the file says
 */
export function loadService(
  file: string,
  fullName: string,
  readers: Readonly<Record<string, (answer: Buffer) => unknown>> = {},
): LoadedService {
  const found = readProto(file)[fullName];
  if (found === undefined || "format" in found) {
    throw new TypeError(`no service ${fullName} in ${file}`);
  }
  const definition: ServiceDefinition = Object.fromEntries(
    Object.entries(found).map(([name, method]) => {
      const responseDeserialize = readers[name] ?? method.responseDeserialize;
      return [name, { ...method, responseDeserialize }];
    }),
  );
  return { definition, Client: makeClientConstructor(definition, fullName) };
}
