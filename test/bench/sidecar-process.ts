import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { loadService } from "../../src/grpc/load-service.ts";
import { dialUnix } from "../../src/grpc/unix-client.ts";
import { hashedPodInterfaceName } from "../../src/names/interface-name.ts";
import { type Child, startChild } from "../machine/child.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { type LimitedCgroup, limitedCgroup } from "../shim/limited-cgroup.ts";
import { convertVmi } from "../stand-in/virt-launcher/converter.ts";
import { networkInfo, projectNetworkInfo } from "../stand-in/virt-launcher/network-info.ts";
import type { VirtualMachineInstance } from "../stand-in/virt-launcher/vmi.ts";
import { printXml } from "../stand-in/virt-launcher/xml-tree.ts";

/** What KubeVirt gives a hook sidecar of a VM with dedicated CPUs. */
const MEMORY_BYTES = 64_000_000;
const CPU_MILLIS = 200;
const START_LIMIT_MS = 60_000;
const CALL_LIMIT_MS = 60_000;
const PROGRAM = resolve(import.meta.dirname, "../../dist/sidecar/main.mjs");

const info = loadService("kubevirt/hooks-info.proto", "kubevirt.hooks.info.Info");
const callbacks = loadService("kubevirt/hooks-v1alpha3.proto", "kubevirt.hooks.v1alpha3.Callbacks");

/** What of the limits holds. */
export interface SidecarLimits {
  /** False gives it a whole processor, where only memory is measured. */
  readonly cpu: boolean;
}

/** The bundled sidecar in a control group of its own, and virt-launcher's calls. */
export class SidecarProcess implements AsyncDisposable {
  readonly cgroup: LimitedCgroup;
  /** Milliseconds from before the process is made until Info was answered. */
  readonly readyMs: number;
  readonly #child: Child;
  readonly #socket: string;

  private constructor(parts: { cgroup: LimitedCgroup; readyMs: number; child: Child; socket: string }) {
    this.cgroup = parts.cgroup;
    this.readyMs = parts.readyMs;
    this.#child = parts.child;
    this.#socket = parts.socket;
  }

  static async start(
    run: LabRun,
    name: string,
    limits: SidecarLimits = { cpu: true },
  ): Promise<SidecarProcess> {
    const directory = join(run.directory, name);
    await mkdir(directory, { recursive: true });
    const file = join(directory, "network-info");
    await projectNetworkInfo(file, networkInfo(benchVmi(16), statusesOf(benchVmi(16))));
    const metadata = join(directory, "metadata");
    await writeMetadata(metadata, benchVmi(16, "dra"));
    const cpuMillis = limits.cpu ? CPU_MILLIS : 10_000;
    const bounds = { memoryBytes: MEMORY_BYTES, cpuMillis };
    const cgroup = await limitedCgroup(run.journal, `${run.name}-${name}`, bounds);
    const socket = join(directory, "s-vhostuser.sock");
    const begin = performance.now();
    const child = await startChild(run, {
      name,
      command: "sh",
      args: ["-c", `${cgroup.enter} && exec "$0"`, PROGRAM],
      env: {
        PATH: `${dirname(process.execPath)}:${process.env["PATH"] ?? ""}`,
        CONTAINER_NAME: "s",
        VHOSTUSER_HOOKS_DIRECTORY: directory,
        VHOSTUSER_NETWORK_INFO_FILE: file,
        VHOSTUSER_METADATA_DIRECTORY: metadata,
      },
    });
    await untilInfo(socket, child);
    const readyMs = performance.now() - begin;
    return new SidecarProcess({ cgroup, readyMs, child, socket });
  }

  /** OnDefineDomain for a VM with so many interfaces. @returns milliseconds until the answer was there */
  async define(interfaces: number, sockets: Sockets = "device plugin"): Promise<number> {
    const vmi = benchVmi(interfaces, sockets);
    const [domain, json] = [printXml(convertVmi(vmi)), JSON.stringify(vmi)];
    const begin = performance.now();
    const answer = await this.defineAny(domain, json);
    const ms = performance.now() - begin;
    const found = answer.split('type="vhostuser"').length - 1;
    if (found !== interfaces) throw new Error(`${found} of ${interfaces} interfaces were defined`);
    return ms;
  }

  /**
   * OnDefineDomain with any domain, by default for a VM with one interface, on a connection of its own, as KubeVirt
   * calls; rejects with the sidecar's words.
   */
  async defineAny(domain: string, vmi = JSON.stringify(benchVmi(1))): Promise<string> {
    const request = { domainXML: Buffer.from(domain), vmi: Buffer.from(vmi) };
    const hooks = dialUnix(callbacks, this.#socket);
    try {
      const answer = await hooks.call<{ domainXML: Buffer }>("OnDefineDomain", request, CALL_LIMIT_MS);
      return answer.domainXML.toString("utf8");
    } finally {
      hooks.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child.stop();
    await this.cgroup[Symbol.asyncDispose]();
  }
}

async function untilInfo(socket: string, child: Child): Promise<void> {
  const end = performance.now() + START_LIMIT_MS;
  for (;;) {
    const client = dialUnix(info, socket);
    try {
      await client.call("Info", {}, START_LIMIT_MS);
      return;
    } catch (cause) {
      if (!child.isRunning() || performance.now() > end) {
        throw new Error(`the sidecar does not answer: ${await child.logTail()}`, { cause });
      }
    } finally {
      client.close();
    }
    await delay(5);
  }
}

const names = (count: number) => [...Array(count).keys()].map((index) => `net${index}`);

/** Where a VM's sockets come from. */
type Sockets = "device plugin" | "dra";

function benchVmi(count: number, sockets: Sockets = "device plugin"): VirtualMachineInstance {
  const claims = sockets === "dra" ? names(count) : [];
  return {
    metadata: { name: "router", namespace: "tests" },
    spec: {
      architecture: "amd64",
      domain: {
        cpu: { cores: 4 },
        machine: { type: "q35" },
        memory: { guest: "4Gi", hugepages: { pageSize: "1Gi" } },
        devices: {
          networkInterfaceMultiqueue: true,
          disks: names(4).map((name) => ({ name })),
          interfaces: names(count).map((name) => ({ name, binding: { name: "vhostuser" } })),
        },
      },
      networks: names(count).map((name) =>
        sockets === "dra"
          ? { name, resourceClaim: { claimName: name, requestName: "port" } }
          : { name, multus: { networkName: name } },
      ),
      resourceClaims: claims.map((name) => ({ name, resourceClaimTemplateName: "ports" })),
    },
  };
}

/** What a DRA driver says of each network's device, in files as Kubernetes gives them to a container. */
async function writeMetadata(root: string, vmi: VirtualMachineInstance): Promise<void> {
  for (const { name } of vmi.spec.resourceClaims ?? []) {
    const directory = join(root, "resourceclaimtemplates", name, "port");
    await mkdir(directory, { recursive: true });
    const attributes = {
      "vhost-user-path": { string: `/var/run/ovsdpdk/${name}/port/vhost.sock` },
      mtu: { int: 9000 },
    };
    const device = { driver: "ovsdpdk.example.com", pool: "node-1", name: "br0", attributes };
    const text = JSON.stringify({
      apiVersion: "metadata.resource.k8s.io/v1alpha1",
      kind: "DeviceMetadata",
      requests: [{ name: "port", devices: [device] }],
    });
    await writeFile(join(directory, "ovsdpdk.example.com-metadata.json"), text);
  }
}

function statusesOf(vmi: VirtualMachineInstance) {
  return (vmi.spec.networks ?? []).map(({ name }) => {
    const pod = hashedPodInterfaceName(name);
    const path = `/var/run/vhostuser/sockets/${pod}/vhost.sock`;
    const deviceInfo = { type: "vhost-user", version: "1.1.0", "vhost-user": { mode: "server", path } };
    return { name, interface: pod, mac: "02:00:00:00:00:01", mtu: 9000, "device-info": deviceInfo };
  });
}
