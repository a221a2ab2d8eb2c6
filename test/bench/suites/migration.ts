import { ClusterNode } from "../../cluster/cluster-node.ts";
import { smallVmi } from "../../cluster/example-vm.ts";
import { exampleNetwork } from "../../cluster/network.ts";
import { BRIDGES } from "../../cluster/switch.ts";
import { VmPod } from "../../cluster/vm-pod.ts";
import { buildGuestImage } from "../../guest/image.ts";
import { findGuestKernel } from "../../machine/guest-kernel.ts";
import type { Bench } from "../bench-suite.ts";
import { atMost, type SuiteDefinition } from "../measurement.ts";
import { spreadOf } from "../spread.ts";

/** Half of them in each direction, and as many without an announcement in between. */
const MIGRATIONS = 10;
const PING_MS = 10;
const MAC = { vm: "02:00:00:00:03:01", peer: "02:00:00:00:03:02" } as const;
const ADDRESS = { vm: "10.3.0.1", peer: "10.3.0.2" } as const;

type Mode = "announced" | "silent";

/** What the peer missed of one migration beyond the hypervisor's own downtime, ms. */
interface Missed {
  /** Requests that never got an answer, from the first of them to the next that got one. */
  readonly lost: number;
  /** Longest time between two answers: this includes those that were late, because the guest itself was. */
  readonly silent: number;
}

/** A VM that goes to and fro between two bridges, and a peer that pings it. */
export interface MigrationRig {
  /** Migrates the VM once. */
  migrate(mode: Mode): Promise<Missed>;
  /** All migrations so far. */
  readonly seen: Readonly<Record<Mode, readonly Missed[]>>;
}

/** Two nodes on each bridge, one whose daemon announces guests and one whose does not, and two VMs. */
export async function openMigrationRig({ run, ovs }: Bench): Promise<MigrationRig> {
  const kernel = await findGuestKernel();
  if (kernel === undefined) throw new Error("no guest kernel; npm test installs it");
  const image = await buildGuestImage(kernel);
  const network = await exampleNetwork();
  const { databaseSocket } = ovs;
  const startNode = (name: string, bridge: string, announce: boolean) =>
    ClusterNode.start(run, { name, bridge, databaseSocket, announce });
  const sides = [
    {
      announced: await startNode("ma", BRIDGES.a, true),
      silent: await startNode("ma0", BRIDGES.a, false),
    },
    {
      announced: await startNode("mb", BRIDGES.b, true),
      silent: await startNode("mb0", BRIDGES.b, false),
    },
  ] as const;
  let pods = 0;
  const podOn = (node: ClusterNode, name: keyof typeof MAC) => {
    const vmi = smallVmi({ name: `moving-${name}`, mac: MAC[name] });
    pods += 1;
    return new VmPod({ run, node, name: `m${pods}`, vmi, network, image });
  };
  const boot = async (node: ClusterNode, name: keyof typeof MAC) => {
    const vm = podOn(node, name);
    await vm.allocate();
    await vm.attach();
    await vm.launch();
    await vm.define();
    await vm.boot();
    await vm.guest.setAddress(MAC[name], `${ADDRESS[name]}/24`);
    return vm;
  };
  const peer = await boot(sides[1].silent, "peer");
  let source = await boot(sides[0].silent, "vm");
  let side: 0 | 1 = 0;
  const seen: Readonly<Record<Mode, Missed[]>> = { announced: [], silent: [] };
  return {
    migrate: async (mode) => {
      side = side === 0 ? 1 : 0;
      const target = podOn(sides[side][mode], "vm");
      await target.allocate();
      await target.attach();
      await target.launch();
      await target.prepareAsTarget();
      await peer.guest.waitForPeer(ADDRESS.vm);
      const pinging = await peer.guest.startPing(ADDRESS.vm, PING_MS);
      const { downtimeMs } = await source.libvirt.migrate(source.domainName, target.libvirt);
      await peer.guest.waitForPeer(ADDRESS.vm);
      const { longestGapMs, longestLossMs } = await pinging.stop();
      await source.stop();
      await source.detach();
      source.remove();
      source = target;
      const missed = {
        lost: Math.max(0, longestLossMs - downtimeMs),
        silent: Math.max(0, longestGapMs - downtimeMs),
      };
      seen[mode].push(missed);
      const beyond = `beyond it ${missed.lost} ms of lost pings, ${missed.silent} ms without an answer`;
      run.progress(`${mode}: downtime ${downtimeMs} ms, ${beyond}`);
      return missed;
    },
    seen,
  };
}

const longestLoss = (missed: readonly Missed[]) => Math.max(...missed.map(({ lost }) => lost));
const medianSilence = (missed: readonly Missed[]) => spreadOf(missed.map(({ silent }) => silent)).median;

/** What a peer misses of a VM that migrates, with a ping every 10 ms. */
export const migrationSuite: SuiteDefinition<MigrationRig> = {
  name: "migration",
  peer: "the same without an announcement: the guest's own frames tell the network",
  measurements: [
    {
      name: "outage beyond the hypervisor's downtime, median",
      unit: "ms",
      repetitions: MIGRATIONS,
      shows: "median",
      ours: async ({ migrate }) => (await migrate("announced")).lost,
      peer: async ({ migrate }) => (await migrate("silent")).lost,
      aim: atMost(50, "<= 50 ms"),
    },
    {
      name: "outage beyond the hypervisor's downtime, the longest",
      unit: "ms",
      repetitions: 1,
      shows: "median",
      ours: async ({ seen }) => longestLoss(seen.announced),
      peer: async ({ seen }) => longestLoss(seen.silent),
      aim: atMost(100, "<= 100 ms"),
    },
    {
      name: "time without an answer beyond the hypervisor's downtime, median",
      unit: "ms",
      repetitions: 1,
      shows: "median",
      ours: async ({ seen }) => medianSilence(seen.announced),
      peer: async ({ seen }) => medianSilence(seen.silent),
    },
  ],
};
