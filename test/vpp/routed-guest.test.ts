import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { buildAll } from "../../scripts/build/build-all.ts";
import { ClusterNode } from "../cluster/cluster-node.ts";
import { smallVmi } from "../cluster/example-vm.ts";
import { exampleNetwork } from "../cluster/network.ts";
import { VmPod } from "../cluster/vm-pod.ts";
import type { Guest } from "../guest/guest.ts";
import { buildGuestImage } from "../guest/image.ts";
import { startRealVpp } from "../integration/vpp-process.ts";
import { startVppRig, type VppRig } from "../integration/vpp-rig.ts";
import { findGuestKernel } from "../machine/guest-kernel.ts";
import { IpamPlugin } from "../stand-in/cni/ipam-plugin.ts";

const GATEWAY = { v4: "10.9.0.1", v6: "fd09::1" };
const GUESTS = {
  one: { mac: "02:00:00:00:06:01", v4: "10.9.0.5", v6: "fd09::5" },
  two: { mac: "02:00:00:00:06:02", v4: "10.9.0.6", v6: "fd09::6" },
} as const;
type Name = keyof typeof GUESTS;

let vpp: VppRig;
let node: ClusterNode;
let vms: Record<Name, VmPod>;
let isOffered = false;

beforeAll(async () => {
  const binary = process.env["VPP_BIN"];
  if (binary === undefined) throw new Error("VPP_BIN names no VPP; npm run test:vpp says what it needs");
  await buildAll();
  vpp = await startVppRig((run, directory) => startRealVpp(run, binary, directory));
  isOffered = await vpp.offers("routed ports");
  if (!isOffered) return;
  const binDir = join(vpp.run.directory, "ipam-bin");
  const ipam = await IpamPlugin.install({ binDir, directory: join(vpp.run.directory, "ipam") });
  node = await ClusterNode.start(vpp.run, {
    name: "a",
    bridge: "blue",
    databaseSocket: "",
    pool: { dataplane: { type: "vpp", apiSocket: vpp.apiSocket, bridge: "blue" } },
    reclaim: { intervalSeconds: 600, graceSeconds: 3 },
    cniPath: binDir,
  });
  const kernel = await findGuestKernel();
  if (kernel === undefined) throw new Error("no guest kernel; npm test installs it");
  const [image, example] = [await buildGuestImage(kernel), await exampleNetwork()];
  const { bridge: _, ...keys } = JSON.parse(String(example.config));
  const config = { ...keys, mode: "l3", vrf: 7, createVrf: true, ipam: { type: ipam.type } };
  const network = { ...example, config: JSON.stringify(config) };
  const boot = async (name: Name) => {
    const { mac, v4, v6 } = GUESTS[name];
    await ipam.answer("ADD", {
      cniVersion: config.cniVersion,
      ips: [
        { address: `${v4}/24`, gateway: GATEWAY.v4 },
        { address: `${v6}/64`, gateway: GATEWAY.v6 },
      ],
    });
    const vm = new VmPod({ run: vpp.run, node, name, vmi: smallVmi({ name, mac }), network, image });
    await vm.allocate();
    await vm.attach();
    await vm.launch();
    await vm.define();
    await vm.boot();
    await setAddresses(vm.guest, GUESTS[name]);
    return vm;
  };
  vms = { one: await boot("one"), two: await boot("two") };
});
afterAll(() => vpp?.close());

/** As docs/vpp.md says: nothing but the gateway is on the link. */
async function setAddresses(guest: Guest, { mac, v4, v6 }: (typeof GUESTS)[Name]): Promise<void> {
  const device = await guest.setAddress(mac, `${v4}/32`);
  for (const command of [
    `ip route add ${GATEWAY.v4} dev ${device}`,
    `ip route add default via ${GATEWAY.v4} dev ${device}`,
    `ip -6 address add ${v6}/128 dev ${device}`,
    `ip -6 route add ${GATEWAY.v6} dev ${device}`,
    `ip -6 route add default via ${GATEWAY.v6} dev ${device}`,
  ]) {
    await guest.run(command);
  }
}

/** Pings by IPv6 until some answers came in a row. */
const ping6 = (guest: Guest, address: string) =>
  guest.run(
    `for try in $(seq 20); do ping6 -c 3 -i 0.2 -W 2 ${address} | grep -q ' 0% packet loss' && break; done`,
    {
      limitMs: 150_000,
    },
  );

async function talk(): Promise<void> {
  for (const [name, peer] of [
    ["one", "two"],
    ["two", "one"],
  ] as const) {
    const { guest } = vms[name];
    for (const address of [GATEWAY.v4, GUESTS[peer].v4]) {
      await guest.waitForPeer(address, 30_000);
      expect((await guest.ping(address, 50)).received).toBeGreaterThan(0);
    }
    for (const address of [GATEWAY.v6, GUESTS[peer].v6]) await ping6(guest, address);
  }
}

describe("guests of libvirt and QEMU behind routed ports of VPP", () => {
  beforeEach((context) => {
    if (!isOffered) context.skip();
  });

  it("reach their gateway and each other, by IPv4 and IPv6", () => talk());

  it("do so again after VPP was killed", async () => {
    await vpp.killSwitch();
    await vpp.startSwitch();
    await talk();
  });

  it("leave nothing in VPP when they go", async () => {
    for (const name of ["one", "two"] as const) {
      await vms[name].stop();
      await vms[name].detach();
    }
    expect(await vpp.portNames()).toEqual([]);
    expect(await vpp.belongings()).toEqual([]);
  });
});
