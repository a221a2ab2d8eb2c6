import { chown, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { KeyedMutex } from "../../src/sync/keyed-mutex.ts";
import type { Container } from "../lab/pod.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { podInterfaceName } from "../stand-in/virt-launcher/network-info.ts";
import type { VirtualMachineInstance } from "../stand-in/virt-launcher/vmi.ts";
import { type SidecarPod, startSidecarPod } from "./sidecar-pod.ts";
import { VhostUserPeer } from "./sidecar-vhost-peer.ts";

/** Pods as KubeVirt makes them, and two with the emptyDir of deploy/kubevirt/shared-links.yaml. */
const POD_NAMES = ["plain-a", "plain-b", "plain-c", "plain-d", "shared-0", "shared-1"] as const;
type PodName = (typeof POD_NAMES)[number];

let run: LabRun;
let pods: Record<PodName, SidecarPod>;

beforeAll(async () => {
  run = await openLabRun();
  const started = POD_NAMES.map(async (name) => {
    // The order of two bindings' sidecars is that of a map: it differs between two pods of one VM.
    const container = name === "shared-1" ? "hook-sidecar-1" : "hook-sidecar-0";
    const options = { container, sharedLinks: name.startsWith("shared") };
    return [name, await startSidecarPod(run, name, "nested", options)] as const;
  });
  pods = Object.fromEntries(await Promise.all(started)) as Record<PodName, SidecarPod>;
});
afterAll(() => run?.close());

/** Tests run side by side; a pod has one VM. */
const inUse = new KeyedMutex();

type Naming = "hashed" | "ordinal";
type Sockets = "constant" | "foreign";

function vmi(naming: Naming, status: object = {}): VirtualMachineInstance {
  const known = { interfaces: [{ name: "blue", podInterfaceName: "net1" }] };
  return {
    metadata: { name: "router", namespace: "tests" },
    spec: {
      architecture: "amd64",
      domain: {
        cpu: { cores: 1 },
        machine: { type: "q35" },
        memory: { guest: "64Mi" },
        devices: { interfaces: [{ name: "blue", binding: { name: "vhostuser" } }] },
      },
      networks: [{ name: "blue", multus: { networkName: "blue" } }],
    },
    status: { ...(naming === "ordinal" ? known : {}), ...status },
  };
}

/** The socket's directory in one pod, made ready: as the machine sees it and as compute does. */
async function socketDirectory(
  pod: SidecarPod,
  where: PodName,
  guest: VirtualMachineInstance,
  sockets: Sockets,
) {
  const name = sockets === "constant" ? podInterfaceName(guest, "blue") : `allocation-of-${where}`;
  const here = join(sockets === "constant" ? pod.constantMount : pod.foreignMount, name);
  await mkdir(here, { recursive: true });
  await chown(here, 107, 107);
  const root = sockets === "constant" ? "/var/run/vhostuser/sockets" : "/var/run/foreign";
  return { here, inCompute: join(root, name) };
}

function publish(pod: SidecarPod, guest: VirtualMachineInstance, directory: string): Promise<void> {
  const path = join(directory, "vhost.sock");
  const deviceInfo = { type: "vhost-user", version: "1.1.0", "vhost-user": { mode: "server", path } };
  return pod.publish(guest, [
    { name: "blue", interface: podInterfaceName(guest, "blue"), "device-info": deviceInfo },
  ]);
}

interface Migration {
  readonly from: PodName;
  readonly to: PodName;
  readonly naming: Naming;
  readonly sockets: Sockets;
  /** What the target's sidecar does before libvirt migrates; nothing where it is not there. */
  readonly onTarget?: (target: {
    readonly pod: SidecarPod;
    readonly guest: VirtualMachineInstance;
    readonly sidecar: Container;
    readonly publish: () => Promise<void>;
  }) => Promise<void>;
}

/** Starts a VM in one pod and migrates it to another; gives the path that it has there. */
function migrate(migration: Migration): Promise<string> {
  const [first = "", second = ""] = [migration.from, migration.to].sort();
  const what = "a migration";
  return inUse.run({ key: first, what }, () =>
    inUse.run({ key: second, what }, () => migrateAlone(migration)),
  );
}

async function migrateAlone({ from, to, naming, sockets, onTarget }: Migration): Promise<string> {
  const [source, target] = [pods[from], pods[to]];
  const guest = vmi(naming);
  const there = vmi(naming, { migrationState: {} });
  const sourceDirectory = await socketDirectory(source, from, guest, sockets);
  const targetDirectory = await socketDirectory(target, to, guest, sockets);
  await publish(source, guest, sourceDirectory.inCompute);
  await target.publish(guest, []);
  const peers = [sourceDirectory, targetDirectory].map(
    ({ here }) => new VhostUserPeer(join(here, "vhost.sock")),
  );
  const sidecars = [await source.startSidecar()];
  const launcher = source.launcher("1.9");
  await launcher.collectHooks(1);
  const { name } = await launcher.defineVm(guest);
  try {
    const connecting = peers.map((peer) => peer.connect());
    await source.libvirt.start(name);
    await connecting[0];
    if (onTarget !== undefined) {
      const sidecar = await target.startSidecar();
      sidecars.push(sidecar);
      const late = () => publish(target, there, targetDirectory.inCompute);
      await onTarget({ pod: target, guest: there, sidecar, publish: late });
    }
    await source.libvirt.migrate(name, target.libvirt);
    expect(await target.libvirt.state(name)).toBe("running");
    const xml = await target.libvirt.dumpXml(name);
    return /<source type='unix' path='([^']+)' mode='server'/.exec(xml)?.[1] ?? "none";
  } finally {
    for (const peer of peers) peer.close();
    await Promise.all(sidecars.map((sidecar) => sidecar.stop()));
    const leaveEmpty = async (pod: SidecarPod) => {
      await pod.libvirt.destroy(name).catch(() => undefined);
      await pod.libvirt.undefine(name).catch(() => undefined);
      const container = pod === pods["shared-1"] ? "hook-sidecar-1" : "hook-sidecar-0";
      await rm(join(pod.hooks, container, "vhostuser"), { recursive: true, force: true });
    };
    await Promise.all([leaveEmpty(source), leaveEmpty(target)]);
  }
}

/** virt-launcher on the target, with network-info that is there from the beginning. */
const prepared: Migration["onTarget"] = async ({ pod, guest, publish }) => {
  await publish();
  const launcher = pod.launcher("1.9");
  await launcher.collectHooks(1);
  await launcher.prepareMigrationTarget(guest);
};

describe.concurrent.each<Naming>(["hashed", "ordinal"])("with %s interface names", (naming) => {
  const plain = { from: "plain-a", to: "plain-b", naming } as const;

  it("a socket on the constant path needs nothing of the target's sidecar: it may be absent", async () => {
    const path = await migrate({ ...plain, sockets: "constant" });
    expect(path).toBe(`/var/run/vhostuser/sockets/${podInterfaceName(vmi(naming), "blue")}/vhost.sock`);
  });

  it("another plugin's socket is reached through the link that the target's sidecar made", async () => {
    const path = await migrate({ ...plain, sockets: "foreign", onTarget: prepared });
    const link = podInterfaceName(vmi("hashed"), "blue");
    expect(path).toBe(`/var/run/kubevirt-hooks/hook-sidecar-0/vhostuser/${link}/vhost.sock`);
  });
});

describe.concurrent("the target's sidecar", () => {
  const plain = { from: "plain-c", to: "plain-d", naming: "hashed" } as const;

  it("may never get network-info where the mount is constant, as before KubeVirt 1.6.3", async () => {
    const onTarget: Migration["onTarget"] = async ({ pod, guest }) => {
      const launcher = pod.launcher("1.9", { callbackDeadlineMs: 6_000 });
      await launcher.collectHooks(1);
      await launcher.prepareMigrationTarget(guest);
    };
    expect(await migrate({ ...plain, sockets: "constant", onTarget })).toContain("/var/run/vhostuser/");
  });

  it("may get its network-info late, while virt-launcher waits for it", async () => {
    const onTarget: Migration["onTarget"] = async ({ pod, guest, publish }) => {
      const launcher = pod.launcher("1.9");
      await launcher.collectHooks(1);
      const preparing = launcher.prepareMigrationTarget(guest);
      await publish();
      await preparing;
    };
    expect(await migrate({ ...plain, sockets: "foreign", onTarget })).toContain("/hook-sidecar-0/");
  });

  it("may be killed once the link is there", async () => {
    const onTarget: Migration["onTarget"] = async (target) => {
      await prepared(target);
      target.sidecar.kill("SIGKILL");
      await target.sidecar.ended;
    };
    expect(await migrate({ ...plain, sockets: "foreign", onTarget })).toContain("/hook-sidecar-0/");
  });

  it("is needed for a link: without it the migration fails, and the VM stays where it is", async () => {
    await expect(migrate({ ...plain, sockets: "foreign" })).rejects.toThrow("vhost.sock");
  });
});

describe.concurrent("the shared emptyDir", () => {
  it("keeps the path where the sidecar's container has another name on the target", async () => {
    const path = await migrate({
      from: "shared-0",
      to: "shared-1",
      naming: "hashed",
      sockets: "foreign",
      onTarget: prepared,
    });
    expect(path).toBe(`/var/run/vhostuser-links/${podInterfaceName(vmi("hashed"), "blue")}/vhost.sock`);
  });

  it("can be added while VMs run: one that started without it still finds its link", async () => {
    const path = await migrate({
      from: "plain-a",
      to: "shared-0",
      naming: "hashed",
      sockets: "foreign",
      onTarget: prepared,
    });
    expect(path).toContain("/var/run/kubevirt-hooks/hook-sidecar-0/vhostuser/");
  });
});
