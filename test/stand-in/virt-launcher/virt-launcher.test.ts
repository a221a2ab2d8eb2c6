import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../../../src/logging/logger.ts";
import { startSidecar } from "../../../src/sidecar/sidecar.ts";
import { AddressingLibvirt } from "./addressing-libvirt.ts";
import { networkInfo, podInterfaceName, projectNetworkInfo } from "./network-info.ts";
import { type KubevirtVersion, VirtLauncher } from "./virt-launcher.ts";
import type { VirtualMachineInstance } from "./vmi.ts";

let root: string;
let end: AbortController;
let ended: Promise<void>;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "virt-launcher-"));
  const own = join(root, "hooks/hook-sidecar-0");
  await mkdir(own, { recursive: true });
  end = new AbortController();
  const sidecar = await startSidecar(
    {
      serves: { kind: "hook-sidecar", directory: own, owner: "hook-sidecar-0" },
      links: [
        { here: join(own, "vhostuser"), inCompute: "/var/run/kubevirt-hooks/hook-sidecar-0/vhostuser" },
      ],
      binding: "vhostuser",
      networkInfo: { file: join(root, "network-info") },
      metadataRoot: join(root, "metadata"),
      socketRoots: ["/var/run"],
      logger: silentLogger,
    },
    end.signal,
  );
  ended = sidecar.stopped;
});
afterEach(async () => {
  end.abort(new Error("the test is over"));
  await ended;
  await rm(root, { recursive: true });
});

function vmi(count: number, machine = "q35"): VirtualMachineInstance {
  const names = [...Array(count).keys()].map((index) => `n${index}`);
  return {
    metadata: { name: "router", namespace: "tests" },
    spec: {
      domain: {
        machine: { type: machine },
        devices: { interfaces: names.map((name) => ({ name, binding: { name: "vhostuser" } })) },
      },
      networks: names.map((name) => ({ name, multus: { networkName: name } })),
    },
  };
}

async function define(guest: VirtualMachineInstance, kubevirtVersion: KubevirtVersion) {
  const statuses = (guest.spec.networks ?? []).map(({ name }) => {
    const pod = podInterfaceName(guest, name);
    const path = `/var/run/vhostuser/sockets/${pod}/vhost.sock`;
    const info = { type: "vhost-user", version: "1.1.0", "vhost-user": { mode: "server", path } };
    return { name, interface: pod, "device-info": info };
  });
  await projectNetworkInfo(join(root, "network-info"), networkInfo(guest, statuses));
  const libvirt = new AddressingLibvirt();
  const launcher = new VirtLauncher({ hooksDirectory: join(root, "hooks"), kubevirtVersion, libvirt });
  await launcher.collectHooks(1);
  return launcher.defineVm(guest);
}

const count = (xml: string, text: string) => xml.split(text).length - 1;

describe("virt-launcher", () => {
  it.each<[KubevirtVersion, number, string, number]>([
    ["1.6", 1, "q35", 2],
    ["1.7", 4, "q35", 1],
    ["1.8", 1, "q35", 3],
    ["1.8", 4, "q35", 2],
    ["1.8", 1, "pc", 2],
    ["1.9", 1, "pc", 1],
    ["main", 1, "q35", 3],
    ["main", 4, "q35", 2],
    ["main", 4, "pc", 1],
  ])(
    "of KubeVirt %s calls OnDefineDomain for %i NICs on %s %i times",
    async (version, nics, machine, calls) => {
      const vm = await define(vmi(nics, machine), version);
      expect(vm.calls).toHaveLength(calls);
      expect(vm.xml).toBe(vm.calls.at(-1)?.output);
      expect(count(vm.xml, 'type="vhostuser"')).toBe(nics);
      expect(vm.xml).not.toContain("placeholder");
    },
  );

  it("fills up with placeholders first, then forgets them and the hook's interface", async () => {
    const { calls } = await define(vmi(1), "1.7");
    expect(calls.map(({ input }) => count(input, "placeholder-"))).toEqual([6, 0]);
    expect(calls[1]?.input).not.toContain("ua-n0");
  });

  it("sends the hook's own interface back stripped, with the address that libvirt gave where it read it back", async () => {
    const structs = await define(vmi(1), "1.9");
    const [, , third] = structs.calls;
    expect(third?.input).toContain("ua-n0");
    expect(third?.input).not.toContain("vhost.sock");
    expect(third?.input).not.toContain('bus="0x01"');
    const readBack = await define(vmi(4), "main");
    expect(readBack.calls[1]?.input).toContain('bus="0x04"');
    expect(readBack.xml).toContain('bus="0x04"');
  });

  it("drops the answer on a migration's target, and reports its error", async () => {
    const libvirt = new AddressingLibvirt();
    const launcher = new VirtLauncher({
      hooksDirectory: join(root, "hooks"),
      kubevirtVersion: "1.9",
      libvirt,
    });
    await launcher.collectHooks(1);
    await projectNetworkInfo(
      join(root, "network-info"),
      JSON.stringify({ interfaces: [{ network: "n0", mtu: 1 }] }),
    );
    await expect(launcher.prepareMigrationTarget(vmi(1))).rejects.toThrow("invalid-network-info");
    await projectNetworkInfo(join(root, "network-info"), JSON.stringify({ interfaces: [{ network: "n0" }] }));
    await launcher.prepareMigrationTarget(vmi(1));
    await expect(libvirt.dumpInactiveXml()).rejects.toThrow("nothing is defined");
  });
});
