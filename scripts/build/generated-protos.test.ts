import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import protobuf from "protobufjs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MESSAGE_OPTIONS, readProto } from "../../src/grpc/read-proto.ts";
import { protoModule } from "./generated-protos.ts";

const files = (await readdir("proto", { recursive: true })).filter((name) => name.endsWith(".proto"));

let directory: string;
let generated: { readonly readProto: typeof readProto };
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-protos-"));
  const outfile = join(directory, "protos.mjs");
  const stdin = { contents: protoModule(files), resolveDir: import.meta.dirname };
  await build({ stdin, outfile, bundle: true, platform: "node", format: "esm" });
  generated = await import(pathToFileURL(outfile).href);
});
afterAll(() => rm(directory, { recursive: true }));

const SCALARS: Readonly<Record<string, unknown>> = { string: "é", bytes: Buffer.from([0, 255]), bool: true };

/** A message with every field set. */
function sample(type: protobuf.Type | null): object {
  const values = type?.fieldsArray.map(({ name, map, repeated, resolvedType, type: scalar }) => {
    const one = resolvedType instanceof protobuf.Type ? sample(resolvedType) : (SCALARS[scalar] ?? 2 ** 40);
    return [name, map ? { key: one } : repeated ? [one, one] : one] as const;
  });
  return Object.fromEntries(values ?? []);
}

/** What a function returns, or the error's text. */
function outcome(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return String(error);
  }
}

describe.each(files)("the code that a bundle has for %s", (file) => {
  const root = new protobuf.Root().loadSync(join("proto", file), MESSAGE_OPTIONS).resolveAll();
  const methods = Object.entries(readProto(file)).flatMap(([service, one]) =>
    "format" in one ? [] : Object.entries(one).map(([name, expected]) => ({ service, name, expected })),
  );

  it.each(methods)(
    "reads and writes for $name of $service what the file says",
    ({ service, name, expected }) => {
      const found = generated.readProto(file)[service];
      if (found === undefined || "format" in found) throw new Error("the service is missing");
      const { path, requestStream, responseStream, originalName } = expected;
      expect(found[name]).toMatchObject({ path, requestStream, responseStream, originalName });

      const { resolvedRequestType, resolvedResponseType } = root.lookupService(service).methods[name] ?? {};
      for (const [direction, type] of [
        ["request", resolvedRequestType],
        ["response", resolvedResponseType],
      ] as const) {
        const full = sample(type ?? null);
        for (const value of [full, {}, { ...full, [Object.keys(full)[0] ?? "a"]: [7] }]) {
          const write = (method: typeof expected) => outcome(() => method[`${direction}Serialize`](value));
          expect(write(found[name] as typeof expected)).toEqual(write(expected));
        }
        const bytes = expected[`${direction}Serialize`](full);
        for (const value of [bytes, bytes.subarray(0, -1), Buffer.alloc(0), Buffer.from([255, 255])]) {
          const read = (method: typeof expected) => outcome(() => method[`${direction}Deserialize`](value));
          expect(read(found[name] as typeof expected)).toEqual(read(expected));
        }
      }
    },
  );
});
