import { mkdir, mkdtemp, readFile, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AddressingLibvirt } from "../../test/stand-in/virt-launcher/addressing-libvirt.ts";
import { habitsOf, type KubevirtVersion } from "../../test/stand-in/virt-launcher/habits.ts";
import { networkInfo, projectNetworkInfo } from "../../test/stand-in/virt-launcher/network-info.ts";
import { VirtLauncher } from "../../test/stand-in/virt-launcher/virt-launcher.ts";
import type { VirtualMachineInstance } from "../../test/stand-in/virt-launcher/vmi.ts";
import { child, parseXml } from "../../test/stand-in/virt-launcher/xml-tree.ts";
import { silentLogger } from "../logging/logger.ts";
import { hashedPodInterfaceName } from "../names/interface-name.ts";
import { type Clock, systemClock } from "../sync/clock.ts";
import { readEnvironment } from "./environment.ts";
import { type Sidecar, type SidecarOptions, startSidecar } from "./sidecar.ts";

/** The releases of docs/kubevirt-versions.md, a row each. */
const VERSIONS = [
  "1.3",
  "1.4",
  "1.5",
  "1.6",
  "1.6.3",
  "1.6.4",
  "1.7",
  "1.7.2",
  "1.8",
  "1.9",
  "main",
] as const;
const CONTAINER = "hook-sidecar-0";
const PLUGIN = { name: "vhostuser", socketPath: "/var/run/kubevirt-plugin/vhostuser/domain.sock" };

let root: string;
let info: string;
let ending: AbortController;
let started: Sidecar[];

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "kv-"));
  info = join(root, "podinfo/network-info");
  ending = new AbortController();
  started = [];
  await projectNetworkInfo(info, "");
});
afterEach(async () => {
  ending.abort(new Error("the test is over"));
  for (const { stopped } of started) await stopped;
  await rm(root, { recursive: true });
});

/** A sidecar with the directories and variables that this release gives it. */
async function startFor(
  version: KubevirtVersion,
  as: "hook-sidecar" | "plugin" = "hook-sidecar",
  waiting: Partial<SidecarOptions["networkInfo"]> = {},
) {
  const habits = habitsOf(version);
  const isNested = habits.hooksDirectory === "nested";
  const own = isNested ? join(root, "hooks", CONTAINER) : join(root, "hooks");
  const plugin = join(root, "plugin", PLUGIN.name);
  await Promise.all([mkdir(own, { recursive: true }), mkdir(plugin, { recursive: true })]);
  const env = {
    VHOSTUSER_HOOKS_DIRECTORY: own,
    VHOSTUSER_LINKS_DIRECTORY: join(root, "no-links"),
    VHOSTUSER_NETWORK_INFO_FILE: info,
    ...(habits.tellsContainer ? { CONTAINER_NAME: CONTAINER } : {}),
    ...(habits.tellsBinding ? { NETWORK_BINDING_PLUGIN_NAME: "vhostuser" } : {}),
    ...(as === "plugin" ? { VHOSTUSER_PLUGIN_SOCKET: join(plugin, "domain.sock") } : {}),
  };
  const options = await readEnvironment(env, "virt-launcher-router-abcde");
  const networkInfo = { ...options.networkInfo, targetBudgetMs: 200, pollMs: 10, ...waiting };
  const sidecar = await startSidecar({ ...options, networkInfo, logger: silentLogger }, ending.signal);
  started.push(sidecar);
  return { sidecar, links: options.links[0].here };
}

function launcherOf(
  version: KubevirtVersion,
  more: Partial<ConstructorParameters<typeof VirtLauncher>[0]> = {},
) {
  const hooksDirectory = join(root, "hooks");
  return new VirtLauncher({
    hooksDirectory,
    kubevirtVersion: version,
    libvirt: new AddressingLibvirt(),
    ...more,
  });
}

function vmi(nics = 1, status: object = {}): VirtualMachineInstance {
  const names = [...Array(nics).keys()].map((index) => `n${index}`);
  return {
    metadata: { name: "router", namespace: "tests" },
    spec: {
      domain: {
        machine: { type: "q35" },
        devices: { interfaces: names.map((name) => ({ name, binding: { name: "vhostuser" } })) },
      },
      networks: names.map((name) => ({ name, multus: { networkName: name } })),
    },
    status,
  };
}

/** Writes network-info as virt-controller does once the pod is Ready. */
function publish(guest: VirtualMachineInstance, directory = "/var/run/vhostuser/sockets", mtu = 1500) {
  const statuses = (guest.spec.networks ?? []).map(({ name }) => {
    const pod = hashedPodInterfaceName(name);
    const path = directory.includes("foreign")
      ? `${directory}/${name}/vhost.sock`
      : `${directory}/${pod}/vhost.sock`;
    const deviceInfo = { type: "vhost-user", version: "1.1.0", "vhost-user": { mode: "server", path } };
    return { name, interface: pod, mtu, "device-info": deviceInfo };
  });
  return projectNetworkInfo(info, networkInfo(guest, statuses));
}

/** The VM with a NIC of KubeVirt's own before ours. */
function withMasquerade({ spec, ...rest }: VirtualMachineInstance): VirtualMachineInstance {
  const { devices } = spec.domain;
  const interfaces = [{ name: "default", masquerade: {} }, ...(devices.interfaces ?? [])];
  const networks = [{ name: "default", pod: {} }, ...(spec.networks ?? [])];
  const domain = { ...spec.domain, devices: { ...devices, interfaces } };
  return { ...rest, spec: { ...spec, domain, networks } };
}

/** The PCI address of each NIC that has one, by its alias. */
function addressesOf(xml: string) {
  const nics = child(parseXml(xml), "devices")?.children.filter(({ name }) => name === "interface") ?? [];
  return new Map(
    nics.flatMap((nic) => {
      const address = child(nic, "address");
      return address === undefined ? [] : [[child(nic, "alias")?.attributes["name"], address.attributes]];
    }),
  );
}

const pathsIn = (xml: string) => [...xml.matchAll(/path="([^"]+)" mode="server"/g)].map(([, path]) => path);

/** The domain at start, with network-info that comes while the hook waits for it. */
async function startVm(version: KubevirtVersion, nics: number, directory?: string) {
  await projectNetworkInfo(info, ""); // another VM's pod has another file
  const launcher = launcherOf(version);
  await launcher.collectHooks(1);
  const guest = vmi(nics);
  const defining = launcher.defineVm(guest);
  await publish(guest, directory);
  return defining;
}

/** What a migration's target answers, with what this release lets it know. */
async function prepareTarget(version: KubevirtVersion, directory?: string): Promise<void> {
  const guest = vmi(1, { migrationState: {} });
  await projectNetworkInfo(info, "");
  if (habitsOf(version).infoOnTarget) await publish(guest, directory);
  const launcher = launcherOf(version);
  await launcher.collectHooks(1);
  await launcher.prepareMigrationTarget(guest);
}

describe.each(VERSIONS)("KubeVirt %s", (version) => {
  it("does what docs/kubevirt-versions.md says", async () => {
    const habits = habitsOf(version);
    const { sidecar, links } = await startFor(version);

    const few = await startVm(version, 1);
    const many = await startVm(version, 4);
    expect(pathsIn(few.xml)).toEqual([
      `/var/run/vhostuser/sockets/${hashedPodInterfaceName("n0")}/vhost.sock`,
    ]);
    expect(pathsIn(many.xml)).toHaveLength(4);
    for (const { output } of few.calls) expect(pathsIn(output)).toEqual(pathsIn(few.xml));

    const linked = await startVm(version, 1, "/var/run/foreign/source");
    const inCompute = habits.tellsContainer
      ? `/var/run/kubevirt-hooks/${CONTAINER}`
      : "/var/run/kubevirt-hooks";
    const link = hashedPodInterfaceName("n0");
    expect(pathsIn(linked.xml)).toEqual([`${inCompute}/vhostuser/${link}/vhost.sock`]);

    await prepareTarget(version);
    await prepareTarget(version, "/var/run/foreign/target");
    const isTurned = (await readlink(join(links, link))) === "/var/run/foreign/target/n0";

    const launcher = launcherOf(version);
    await launcher.collectHooks(1);
    await launcher.shutdown();
    await sidecar.stopped;

    const row = [
      version,
      habits.hooksDirectory === "flat" ? "one for all" : "one for each",
      habits.tellsBinding ? "any" : "`vhostuser`",
      `${few.calls.length} / ${many.calls.length}`,
      "yes",
      isTurned ? "yes" : "no",
      habits.hasPlugins ? "yes" : "no",
    ];
    expect(await documentedRows()).toContainEqual(row);
  });

  it("puts a VM's NICs where KubeVirt puts its PCI devices: into free slots of the root bus if asked", async () => {
    await startFor(version);
    const guest = withMasquerade(vmi(2));
    const annotations = { "kubevirt.io/placePCIDevicesOnRootComplex": "true" };
    await publish(guest);
    const launcher = launcherOf(version);
    await launcher.collectHooks(1);
    const define = (metadata: object) =>
      launcher.defineVm({ ...guest, metadata: { ...guest.metadata, ...metadata } });
    const { xml, calls } = await define({ annotations });
    const placed = addressesOf(xml);
    expect(placed.get("ua-n0")).toMatchObject({ bus: "0x00" });
    expect(placed.get("ua-n1")).toMatchObject({ bus: "0x00" });
    const slots = [...xml.matchAll(/bus="0x00" slot="(\w+)"/g)].map(([, slot]) => Number(slot));
    expect(slots.length).toBeGreaterThan(4);
    expect(new Set(slots).size).toBe(slots.length);
    for (const { output } of calls) expect(addressesOf(output)).toEqual(placed);
    expect(addressesOf((await define({})).calls[0]?.output ?? "").get("ua-n0")).toBeUndefined();
  });

  it("fails in time when network-info is late, and succeeds at the next try", async () => {
    // The sidecar's time passes faster than the caller's, which a stalled machine does not use up.
    let waitedMs = 0;
    const clock: Clock = {
      now: () => systemClock.now() + waitedMs,
      monotonic: () => systemClock.now() + waitedMs,
      sleep: async (ms, signal) => {
        await systemClock.sleep(ms / 100, signal);
        waitedMs += ms;
      },
    };
    await startFor(version, "hook-sidecar", { clock, pollMs: 100 });
    const launcher = launcherOf(version, { callbackDeadlineMs: 10_000 });
    await launcher.collectHooks(1);
    await expect(launcher.defineVm(vmi())).rejects.toMatchObject({
      details: expect.stringContaining("network-info-timeout"),
    });
    // Less than the caller's limit, which is less than its own.
    expect(waitedMs).toBeLessThan(10_000);
    await publish(vmi());
    expect(pathsIn((await launcher.defineVm(vmi())).xml)).toHaveLength(1);
  });
});

it.each([
  ["1.9", "by its structs, without QEMU's namespace", /<qemu:override xmlns:qemu="[^"]*qemu[^"]*">/],
  ["main", "and keeps QEMU's command line", /<qemu:commandline>[\s\S]*<qemu:override>/],
] as const)("sets the MTU in a domain that KubeVirt %s reprinted %s", async (version, _how, expected) => {
  await startFor(version);
  await publish(vmi(), undefined, 9000);
  const launcher = launcherOf(version);
  await launcher.collectHooks(1);
  const { xml } = await launcher.defineVm(vmi());
  expect(xml).toMatch(expected);
  expect(xml.match(/value="9000"/g)).toHaveLength(1);
});

it("the documented releases are the ones that are played", async () => {
  expect((await documentedRows()).map(([version]) => version)).toEqual([...VERSIONS]);
});

async function documentedRows(): Promise<(string | undefined)[][]> {
  const text = await readFile(join(import.meta.dirname, "../../docs/kubevirt-versions.md"), "utf8");
  return [...text.matchAll(/^\| ((?:1\.|main).*) \|$/gm)].map(([, row]) => (row ?? "").split(" | "));
}

describe("older callbacks", () => {
  it.each(["v1alpha1", "v1alpha2", "v1alpha3"])("%s gives the same domain", async (known) => {
    await startFor("1.9");
    await publish(vmi());
    const { HookManager } = await import("../../test/stand-in/virt-launcher/hook-manager.ts");
    const hooksDirectory = join(root, "hooks");
    const answers = [];
    for (const knownVersions of [[known], ["v1alpha3"]]) {
      const manager = new HookManager({ hooksDirectory, layout: "nested", knownVersions });
      const [hook] = await manager.collect(1);
      expect(hook?.version).toBe(knownVersions[0]);
      answers.push(await manager.onDefineDomain("<domain><devices>\n</devices></domain>", vmi()));
    }
    expect(answers[0]).toBe(answers[1]);
    expect(answers[0]).toContain("ua-n0");
  });
});

describe.each(["1.9", "main"] as const)("a structured plugin of KubeVirt %s", (version) => {
  const plugins = (active: readonly object[] = [PLUGIN]) =>
    ({ plugins: { active: active as (typeof PLUGIN)[], root: join(root, "plugin") } }) as const;

  it("defines the same interface through MutateDomain, however often it is called", async () => {
    await startFor(version);
    const legacy = await startVm(version, 1);
    await startFor(version, "plugin");
    const launcher = launcherOf(version, plugins());
    const { xml, calls } = await launcher.defineVm(vmi());
    expect(pathsIn(xml)).toEqual(pathsIn(legacy.xml));
    for (const { output } of calls) expect(pathsIn(output)).toEqual(pathsIn(xml));
    expect(xml).toContain('rx_queue_size="1024"');
  });

  it("links beside its socket, at boot and on a migration's target", async () => {
    const { links } = await startFor(version, "plugin");
    const launcher = launcherOf(version, plugins());
    const link = hashedPodInterfaceName("n0");
    await publish(vmi(), "/var/run/foreign/source");
    const { xml } = await launcher.defineVm(vmi());
    expect(pathsIn(xml)[0]).toMatch(new RegExp(`/plugin/vhostuser/vhostuser/${link}/vhost.sock$`));
    await publish(vmi(), "/var/run/foreign/target");
    await launcher.prepareMigrationTarget(vmi());
    expect(await readlink(join(links, link))).toBe("/var/run/foreign/target/n0");
  });

  it("does not stop a migration where the target has no network-info", async () => {
    await startFor(version, "plugin");
    await launcherOf(version, plugins()).prepareMigrationTarget(vmi());
  });

  it("of another project breaks a legacy sidecar's NIC, whatever its condition: ours must be a plugin then", async () => {
    await startFor(version);
    await publish(vmi(), undefined, 9000);
    const other = { name: "other", socketPath: "/var/run/kubevirt-plugin/other/x", matches: false };
    const alone = launcherOf(version, plugins([other]));
    await alone.collectHooks(1);
    const broken = (await alone.defineVm(vmi())).xml;
    // As docs/kubevirt-versions.md shows it.
    expect(broken).toContain('<source type="unix" mode="server"></source>');
    expect(broken).not.toMatch(/rx_queue_size|qemu:override/);
    await startFor(version, "plugin");
    const both = launcherOf(version, plugins([other, PLUGIN]));
    await both.collectHooks(1);
    expect(pathsIn((await both.defineVm(vmi())).xml)).toHaveLength(1);
  });

  it("is refused for a hypervisor that is not libvirt's", async () => {
    await startFor(version, "plugin");
    const { loadService } = await import("../grpc/load-service.ts");
    const { dialUnix } = await import("../grpc/unix-client.ts");
    const name = "kubevirt.hooks.plugins.v1alpha1.DomainHookService";
    const client = dialUnix(
      loadService("kubevirt/domain-hook-v1alpha1.proto", name),
      join(root, "plugin/vhostuser/domain.sock"),
    );
    const request = { domain_type: "cloud-hypervisor", domain: Buffer.from("{}"), vmi: Buffer.from("{}") };
    await expect(client.call("MutateDomain", request, 5_000)).rejects.toMatchObject({
      details: expect.stringContaining('"cloud-hypervisor"'),
    });
    client.close();
  });
});
