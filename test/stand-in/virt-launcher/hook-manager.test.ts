import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadService } from "../../../src/grpc/load-service.ts";
import { serveUnix, type UnixServer } from "../../../src/grpc/unix-server.ts";
import { HookManager } from "./hook-manager.ts";

let directory: string;
let servers: UnixServer[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "hooks-"));
  servers = [];
});
afterEach(async () => {
  for (const server of servers) await server.close();
  await rm(directory, { recursive: true });
});

interface Sidecar {
  readonly versions?: readonly string[];
  readonly failsInfo?: boolean;
  readonly mark?: string;
}

/** A sidecar that appends its mark to every domain. */
async function serve(path: string, { versions = ["v1alpha3"], failsInfo = false, mark = "" }: Sidecar = {}) {
  await mkdir(join(directory, path, ".."), { recursive: true });
  const info = loadService("kubevirt/hooks-info.proto", "kubevirt.hooks.info.Info");
  const callbacks = loadService("kubevirt/hooks-v1alpha3.proto", "kubevirt.hooks.v1alpha3.Callbacks");
  const server = await serveUnix({
    socketPath: join(directory, path),
    services: [
      {
        definition: info.definition,
        implementation: {
          Info: (_call: unknown, answer: (error: object | null, result?: object) => void) => {
            if (failsInfo) answer({ code: status.INTERNAL, details: "not now" });
            else
              answer(null, { name: path, versions, hookPoints: [{ name: "OnDefineDomain", priority: 0 }] });
          },
        },
      },
      {
        definition: callbacks.definition,
        implementation: {
          OnDefineDomain: (
            { request }: { request: { domainXML: Buffer } },
            answer: (error: null, result: object) => void,
          ) => answer(null, { domainXML: Buffer.concat([request.domainXML, Buffer.from(mark)]) }),
        },
      },
    ],
  });
  servers.push(server);
}

const manager = (layout: "nested" | "flat", collectTimeoutMs = 30_000) =>
  new HookManager({ hooksDirectory: directory, layout, collectTimeoutMs });
const vmi = { metadata: { name: "a", namespace: "b" }, spec: { domain: { devices: {} } } };

describe("virt-launcher's hook manager", () => {
  it("calls sidecars in the order of its listing, each with what the one before returned", async () => {
    await serve("hook-sidecar-1/b.sock", { mark: "1" });
    await serve("hook-sidecar-0/a.sock", { mark: "0" });
    const hooks = manager("nested");
    await hooks.collect(2);
    expect(await hooks.onDefineDomain("<x/>", vmi)).toBe("<x/>01");
  });

  it("looks one level down since 1.6, and at the top before", async () => {
    await serve("top.sock");
    await serve("hook-sidecar-0/inner.sock");
    await serve("hook-sidecar-0/deeper/deep.sock");
    expect((await manager("flat").collect(1)).map((hook) => hook.name)).toEqual(["top.sock"]);
    expect((await manager("nested").collect(1)).map((hook) => hook.name)).toEqual([
      "hook-sidecar-0/inner.sock",
    ]);
  });

  it("counts two sockets of one base name once", async () => {
    await serve("hook-sidecar-0/same.sock");
    await serve("hook-sidecar-1/same.sock");
    await expect(manager("nested", 500).collect(2)).rejects.toThrow("1 of 2");
  });

  it("dials whatever is no directory, and goes on while nobody answers there", async () => {
    await mkdir(join(directory, "hook-sidecar-0"));
    await writeFile(join(directory, "hook-sidecar-0/a.log"), "");
    await symlink("/nowhere", join(directory, "hook-sidecar-0/link"));
    const hooks = manager("nested");
    const collecting = hooks.collect(1);
    await serve("hook-sidecar-0/late.sock");
    expect((await collecting).map((hook) => hook.name)).toEqual(["hook-sidecar-0/late.sock"]);
  });

  it("panics when a sidecar's Info fails, and when it speaks no known version", async () => {
    await serve("hook-sidecar-0/a.sock", { failsInfo: true });
    await expect(manager("nested").collect(1)).rejects.toMatchObject({ details: "not now" });
    await serve("old.sock", { versions: ["v0"] });
    await expect(manager("flat").collect(1)).rejects.toThrow("supported version");
  });
});
