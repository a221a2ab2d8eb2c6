import { readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { ServiceDefinition } from "@grpc/proto-loader";
import type { Plugin } from "esbuild";
import protobuf from "protobufjs";
import { MESSAGE_OPTIONS, readProto } from "../../src/grpc/read-proto.ts";

const PROTO_ROOT = "proto";

/** A folder under proto/. */
export type ProtoFolder = "kubelet" | "kubevirt" | "nri";

/**
 * Has a bundle carry the code that protobufjs generates for each message of some folders under proto/, instead of the files
 * and what parses them: a quarter of the daemon's CPU time from its start to its registration.
 */
export const generatedProtos = (...folders: readonly ProtoFolder[]): Plugin => ({
  name: "generated-protos",
  setup: ({ onLoad }) => {
    onLoad({ filter: /\/src\/grpc\/read-proto\.ts$/ }, async ({ path }) => {
      // In order, so that two builds are the same.
      const inFolders = folders.map(async (folder) =>
        (await readdir(join(PROTO_ROOT, folder))).sort().map((name) => `${folder}/${name}`),
      );
      const files = (await Promise.all(inFolders)).flat();
      return { contents: protoModule(files), resolveDir: dirname(path), loader: "js" };
    });
  },
});

/** The text of a module that exports `readProto` as src/grpc/read-proto.ts does, for these files under proto/. */
export function protoModule(files: readonly string[]): string {
  const { longs, enums, ...flags } = MESSAGE_OPTIONS;
  return `
    import minimal from "protobufjs/minimal.js";
    const { Reader, Writer, util } = minimal;
    const options = { longs: ${longs.name}, enums: ${enums.name}, ...${JSON.stringify(flags)} };
    const serialize = (type) => (value) => type.encode(type.fromObject(value)).finish();
    const deserialize = (type) => (bytes) => type.toObject(type.decode(bytes), options);
    const files = {${files.map((file) => `${JSON.stringify(file)}() { ${fileCode(file)} }`).join(", ")}};
    export const readProto = (file) => files[file]();
  `;
}

function fileCode(file: string): string {
  const all = messagesOf(new protobuf.Root().loadSync(join(PROTO_ROOT, file), MESSAGE_OPTIONS).resolveAll());
  const services = Object.entries(readProto(file)).flatMap(([name, one]) =>
    "format" in one ? [] : [`${JSON.stringify(name)}: ${serviceCode(one, all)}`],
  );
  return `
    const all = Array.from({ length: ${all.length} }, () => ({}));
    ${all.map((type, index) => `Object.assign(all[${index}], ${messageCode(type, all)});`).join("\n")}
    return { ${services.join(", ")} };
  `;
}

function messagesOf(namespace: protobuf.NamespaceBase): readonly protobuf.Type[] {
  return namespace.nestedArray.flatMap((one) => {
    if (one instanceof protobuf.Enum) throw new TypeError(`${one.fullName}: no code is generated for enums`);
    const nested = one instanceof protobuf.Namespace ? messagesOf(one) : [];
    return one instanceof protobuf.Type ? [one, ...nested] : nested;
  });
}

/** What `Type.setup` of protobufjs makes when a message is first read or written. */
function messageCode(type: protobuf.Type, all: readonly protobuf.Type[]): string {
  const { encoder, decoder, converter } = protobuf;
  const fields = type.fieldsArray.map(({ resolvedType }) =>
    resolvedType === null ? "undefined" : `all[${all.indexOf(resolvedType as protobuf.Type)}]`,
  );
  return `((types) => ({
    ctor: ${protobuf.Type.generateConstructor(type)},
    encode: ${encoder(type)},
    decode: ${decoder(type)},
    fromObject: ${converter.fromObject(type)},
    toObject: ${converter.toObject(type)},
  }))([${fields.join(", ")}])`;
}

function serviceCode(service: ServiceDefinition, all: readonly protobuf.Type[]): string {
  const message = ({ type }: { readonly type: object }) =>
    `all[${all.findIndex(({ name }) => "name" in type && name === type.name)}]`;
  const methods = Object.entries(service).map(([name, method]) => {
    const { path, requestStream, responseStream, originalName, requestType, responseType } = method;
    return `${name}: {
      ...${JSON.stringify({ path, requestStream, responseStream, originalName })},
      requestSerialize: serialize(${message(requestType)}),
      requestDeserialize: deserialize(${message(requestType)}),
      responseSerialize: serialize(${message(responseType)}),
      responseDeserialize: deserialize(${message(responseType)}),
    }`;
  });
  return `{ ${methods.join(", ")} }`;
}
