import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, readlink, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, credentials, type ServiceError } from "@grpc/grpc-js";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { HookManager } from "../../test/stand-in/virt-launcher/hook-manager.ts";
import { networkInfo, projectNetworkInfo } from "../../test/stand-in/virt-launcher/network-info.ts";
import type { VirtualMachineInstance } from "../../test/stand-in/virt-launcher/vmi.ts";
import { hashedPodInterfaceName } from "../names/interface-name.ts";
import { type Sidecar, type SidecarOptions, startSidecar } from "./sidecar.ts";

const POD_INTERFACE = hashedPodInterfaceName("blue");
const CONSTANT_PATH = `/var/run/vhostuser/sockets/${POD_INTERFACE}/vhost.sock`;
const DOMAIN = "<domain><devices>\n</devices></domain>";

let root: string;
let file: string;
let lines: { level: number; msg: string; socket?: string }[];
let running: { sidecar: Sidecar; ending: AbortController }[];

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "sc-"));
  file = join(root, "podinfo", "network-info");
  lines = [];
  running = [];
});
afterEach(async () => {
  for (const { sidecar, ending } of running) {
    ending.abort(new Error("the test is over"));
    await sidecar.stopped;
  }
  await rm(root, { recursive: true });
});

async function start(owner = "hook-sidecar-0", options: Partial<SidecarOptions> = {}): Promise<Sidecar> {
  const ending = new AbortController();
  const hooksDirectory = join(root, "hooks", owner);
  await mkdir(hooksDirectory, { recursive: true });
  const logger = pino({ level: "info" }, { write: (line: string) => lines.push(JSON.parse(line)) });
  const inner = {
    here: join(hooksDirectory, "vhostuser"),
    inCompute: `/var/run/kubevirt-hooks/${owner}/vhostuser`,
  };
  const sidecar = await startSidecar(
    {
      serves: { kind: "hook-sidecar", socketPath: join(hooksDirectory, `${owner}-vhostuser.sock`) },
      links: [inner],
      binding: undefined,
      networkInfo: { file },
      metadataRoot: join(root, "metadata"),
      socketRoots: ["/var/run", "/run"],
      logger,
      ...options,
    },
    ending.signal,
  );
  running.push({ sidecar, ending });
  return sidecar;
}

async function collect(count = 1): Promise<HookManager> {
  const manager = new HookManager({
    hooksDirectory: join(root, "hooks"),
    layout: "nested",
    collectTimeoutMs: 30_000,
    callbackDeadlineMs: 30_000,
  });
  await manager.collect(count);
  return manager;
}

function vmi(names: readonly string[] = ["blue"], binding = "vhostuser"): VirtualMachineInstance {
  return {
    metadata: { name: "router", namespace: "tests" },
    spec: {
      domain: { devices: { interfaces: names.map((name) => ({ name, binding: { name: binding } })) } },
      networks: names.map((name) => ({ name, multus: { networkName: name } })),
    },
  };
}

const status = (path: string | undefined, name = "blue") => ({
  name: `tests/${name}`,
  interface: hashedPodInterfaceName(name),
  ...(path === undefined
    ? {}
    : { "device-info": { type: "vhost-user", version: "1.1.0", "vhost-user": { mode: "server", path } } }),
});
const project = (...statuses: ReturnType<typeof status>[]) =>
  projectNetworkInfo(file, networkInfo(vmi(["blue", "red"]), statuses));

/** One call with bytes in and out, past every .proto file. */
function rawCall(socket: string, method: string, request: Buffer): Promise<Buffer> {
  const client = new Client(`unix://${socket}`, credentials.createInsecure());
  return new Promise<Buffer>((resolve, reject) => {
    const same = (bytes: Buffer) => bytes;
    const deadline = { deadline: Date.now() + 30_000 };
    const done = (error: ServiceError | null, bytes?: Buffer) =>
      error === null ? resolve(bytes ?? Buffer.alloc(0)) : reject(error);
    client.makeUnaryRequest(method, same, same, request, deadline, done);
  }).finally(() => client.close());
}

/** A length-delimited protobuf field of less than 128 bytes. */
const field = (number: number, content: string | Buffer) =>
  Buffer.concat([Buffer.from([number * 8 + 2, content.length]), Buffer.from(content)]);

const priorityZero = Buffer.from([2 * 8, 0]);

describe("on the wire", () => {
  it("answers Info as KubeVirt reads it", async () => {
    const { socketPath } = await start();
    expect(await rawCall(socketPath, "/kubevirt.hooks.info.Info/Info", Buffer.alloc(0))).toEqual(
      Buffer.concat([
        field(1, "kube-vhostuser"),
        field(3, Buffer.concat([field(1, "OnDefineDomain"), priorityZero])),
        field(3, Buffer.concat([field(1, "Shutdown"), priorityZero])),
        field(4, "v1alpha3"),
        field(4, "v1alpha2"),
        field(4, "v1alpha1"),
      ]),
    );
  });

  it("reads the domain as field 1 and the VMI as field 2, and answers with field 1", async () => {
    const { socketPath } = await start("hook-sidecar-0", { binding: "vhostuser" });
    const json = '{"metadata":{"name":"a"},"spec":{"domain":{"devices":{}}}}';
    const request = Buffer.concat([field(1, "<domain/>"), field(2, json)]);
    const answer = await rawCall(socketPath, "/kubevirt.hooks.v1alpha3.Callbacks/OnDefineDomain", request);
    expect(answer).toEqual(field(1, "<domain/>"));
  });

  it("returns cloud-init data unchanged", async () => {
    const { socketPath } = await start();
    const request = Buffer.concat([field(1, "old"), field(2, "{}"), field(3, "new")]);
    const answer = await rawCall(socketPath, "/kubevirt.hooks.v1alpha3.Callbacks/PreCloudInitIso", request);
    expect(answer).toEqual(Buffer.concat([field(1, "old"), field(3, "new")]));
  });
});

describe("the hooks directory", () => {
  it("holds one entry other than directories, named after the container", async () => {
    await start();
    const entries = await readdir(join(root, "hooks/hook-sidecar-0"), { withFileTypes: true });
    expect(entries.map((entry) => [entry.name, entry.isDirectory(), entry.isSocket()])).toEqual([
      ["hook-sidecar-0-vhostuser.sock", false, true],
      ["vhostuser", true, false],
    ]);
    expect(await readdir(join(root, "hooks/hook-sidecar-0/vhostuser"))).toEqual([]);
  });

  it("is taken over from a killed predecessor", async () => {
    const hooks = join(root, "hooks/hook-sidecar-0");
    const path = join(hooks, "hook-sidecar-0-vhostuser.sock");
    const digest = createHash("sha256").update(path).digest("hex").slice(0, 12);
    await mkdir(join(hooks, "vhostuser"), { recursive: true });
    await writeFile(join(hooks, "hook-sidecar-0-vhostuser.sock"), "");
    await writeFile(join(hooks, `vhostuser/bind-${digest}`), "");
    await start();
    expect((await collect()).hooks).toHaveLength(1);
    expect(await readdir(join(hooks, "vhostuser"))).toEqual([]);
  });

  it("accepts the longest name that a pod can have, at the place where KubeVirt mounts it", async () => {
    const hooksDirectory = `${root}/`.padEnd("/var/run/kubevirt-hooks".length, "h");
    await mkdir(hooksDirectory, { recursive: true });
    const { socketPath } = await start("p".repeat(63), {
      serves: { kind: "hook-sidecar", socketPath: join(hooksDirectory, `${"p".repeat(63)}-vhostuser.sock`) },
    });
    expect(await rawCall(socketPath, "/kubevirt.hooks.info.Info/Info", Buffer.alloc(0))).not.toHaveLength(0);
  });

  it("counts both of two sidecars in one pod", async () => {
    await start("hook-sidecar-0");
    await start("hook-sidecar-1");
    expect((await collect(2)).hooks.map((hook) => hook.path)).toEqual([
      join(root, "hooks/hook-sidecar-0/hook-sidecar-0-vhostuser.sock"),
      join(root, "hooks/hook-sidecar-1/hook-sidecar-1-vhostuser.sock"),
    ]);
  });
});

describe("OnDefineDomain", () => {
  it("writes the constant path of device-info unchanged", async () => {
    await start();
    await project(status(CONSTANT_PATH));
    const answer = await (await collect()).onDefineDomain(DOMAIN, vmi());
    expect(answer).toContain(`<source type="unix" path="${CONSTANT_PATH}" mode="server">`);
    expect(answer).toContain('<alias name="ua-blue">');
  });

  it("makes the link of any other path, also when the answer is discarded, and replaces it", async () => {
    await start();
    const manager = await collect();
    const link = join(root, "hooks/hook-sidecar-0/vhostuser", POD_INTERFACE);
    for (const allocation of ["source", "target"]) {
      await project(status(`/var/run/foreign/${allocation}/vhost.sock`));
      expect(await manager.onDefineDomain(DOMAIN, vmi())).toContain(
        `path="/var/run/kubevirt-hooks/hook-sidecar-0/vhostuser/${POD_INTERFACE}/vhost.sock"`,
      );
      expect(await readlink(link)).toBe(`/var/run/foreign/${allocation}`);
    }
    expect((await collect()).hooks).toHaveLength(1);
  });

  it("answers Info while it waits for network-info, and ends when that comes", async () => {
    const { socketPath } = await start();
    const defining = (await collect()).onDefineDomain(DOMAIN, vmi());
    for (let count = 0; count < 3; count++) {
      await rawCall(socketPath, "/kubevirt.hooks.info.Info/Info", Buffer.alloc(0));
    }
    await project(status(CONSTANT_PATH));
    expect(await defining).toContain(CONSTANT_PATH);
  });

  it("refuses a network without device-info, and says which annotation is missing", async () => {
    await start();
    await project(status(undefined));
    await expect((await collect()).onDefineDomain(DOMAIN, vmi())).rejects.toMatchObject({
      details: expect.stringContaining("k8s.v1.cni.cncf.io/resourceName"),
    });
  });

  it("serves the binding that it is registered under, and no other", async () => {
    await start("hook-sidecar-0", { binding: "fast" });
    await project(status(CONSTANT_PATH));
    const manager = await collect();
    expect(await manager.onDefineDomain(DOMAIN, vmi(["blue"], "vhostuser"))).toBe(DOMAIN);
    expect(await manager.onDefineDomain(DOMAIN, vmi(["blue"], "fast"))).toContain("ua-blue");
  });

  it.each<[string, () => Promise<VirtualMachineInstance>, string, string]>([
    [
      "no interface is of the default binding",
      async () => vmi(["blue"], "fast"),
      DOMAIN,
      'invalid-vmi: no interface has binding "vhostuser" (VMI tests/router); register the plugin as "vhostuser"',
    ],
    [
      "two interfaces have one socket",
      async () => {
        await project(status("/run/a/vhost.sock", "blue"), status("/run/a/vhost.sock", "red"));
        return vmi(["blue", "red"]);
      },
      DOMAIN,
      "invalid-network-info: interfaces blue and red have the same socket /run/a/vhost.sock",
    ],
    [
      "the domain is no XML",
      async () => {
        await project(status(CONSTANT_PATH));
        return vmi();
      },
      "<domain>",
      "invalid-domain: the domain XML is malformed: Unclosed tag 'domain'. (OnDefineDomain, line 1, column 1)",
    ],
    [
      "device-info makes QEMU the client",
      async () => {
        const info = {
          type: "vhost-user",
          version: "1",
          "vhost-user": { mode: "client", path: CONSTANT_PATH },
        };
        const interfaces = [{ network: "blue", deviceInfo: info }];
        await projectNetworkInfo(file, JSON.stringify({ interfaces }));
        return vmi();
      },
      DOMAIN,
      'invalid-network-info: its device-info has mode "client"',
    ],
  ])("says in the error what to do where %s", async (_name, prepare, xml, words) => {
    await start();
    const guest = await prepare();
    await expect((await collect()).onDefineDomain(xml, guest)).rejects.toMatchObject({
      details: expect.stringContaining(words),
    });
  });

  it("keeps an error short, whatever it quotes, and its end", async () => {
    await start();
    const guest = vmi();
    const [nic] = guest.spec.domain.devices.interfaces ?? [];
    Object.assign(nic ?? {}, { model: "m".repeat(100_000) });
    await expect((await collect()).onDefineDomain(DOMAIN, guest)).rejects.toMatchObject({
      details: expect.stringMatching(/^invalid-vmi: model "m{400,600} \.\.\. m+.*set it to virtio$/),
    });
  });

  it("stops waiting when the sidecar ends", async () => {
    await start();
    const defining = (await collect()).onDefineDomain(DOMAIN, vmi());
    const refused = expect(defining).rejects.toMatchObject({
      details: expect.stringContaining("the test is over"),
    });
    running[0]?.ending.abort(new Error("the test is over"));
    await refused;
  });
});

describe("Shutdown", () => {
  it("is answered, and then the sidecar leaves nothing behind", async () => {
    const sidecar = await start();
    await (await collect()).shutdown();
    await sidecar.stopped;
    expect(await readdir(join(root, "hooks/hook-sidecar-0"))).toEqual(["vhostuser"]);
  });
});
