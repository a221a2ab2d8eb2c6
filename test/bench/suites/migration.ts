import { ClusterNode } from "../../cluster/cluster-node.ts";
import { smallVmi } from "../../cluster/example-vm.ts";
import { exampleNetwork } from "../../cluster/network.ts";
import { BRIDGES, startSwitches } from "../../cluster/switch.ts";
import { endVm, startTarget, startVm } from "../../cluster/vm-life.ts";
import { VmPod } from "../../cluster/vm-pod.ts";
import { buildGuestImage } from "../../guest/image.ts";
import { findGuestKernel } from "../../machine/guest-kernel.ts";
import type { SelectedNetwork } from "../../stand-in/multus/network.ts";
import type { BenchRun } from "../bench-suite.ts";
import { type Aim, atMost, type Measurement, type SuiteDefinition } from "../measurement.ts";
import { spreadOf } from "../spread.ts";

/** There and back, and as many of the others in between: ten migrations of each. */
const ROUND_TRIPS = 5;
const PING_MS = 10;
const MAC = {
  announced: "02:00:00:00:03:01",
  silent: "02:00:00:00:03:02",
  secured: "02:00:00:00:03:03",
  peer: "02:00:00:00:03:04",
} as const;
const ADDRESS = {
  announced: "10.3.0.1",
  silent: "10.3.0.2",
  secured: "10.3.0.3",
  peer: "10.3.0.4",
} as const;

/** Announced; not announced; announced, in a network with port security and addresses. */
type Mode = "announced" | "silent" | "secured";

/** What the peer missed of one migration beyond the hypervisor's own downtime, ms. */
interface Missed {
  /** Requests that never got an answer, from the first of them to the next that got one. */
  readonly lost: number;
  /** Longest time between two answers: this includes those that were late, because the guest itself was. */
  readonly silent: number;
}

/** VMs that go to and fro between two switches, one of each mode, and a peer at the first that pings them. */
export interface MigrationRig {
  /**
   * Migrates the mode's VM away from the peer, so that the link is between them, and gives what that missed; then
   * back again, but in a trial.
   */
  migrate(mode: Mode): Promise<Missed>;
  /** All migrations so far. */
  readonly seen: Readonly<Record<Mode, readonly Missed[]>>;
}

/** The same network with port security for one address. */
function securedNetwork(network: SelectedNetwork, address: string): SelectedNetwork {
  const { config } = network;
  const whole: object = typeof config === "string" ? JSON.parse(config) : config;
  const ipam = { type: "static", addresses: [{ address: `${address}/24` }] };
  // IPAM plugins of Debian know no later version.
  return { ...network, config: { ...whole, cniVersion: "1.0.0", portSecurity: true, ipam } };
}

/** Two nodes at each switch, one whose daemon announces guests and one whose does not; a VM keeps to one of both. */
export async function openMigrationRig({ run, isTrial }: BenchRun): Promise<MigrationRig> {
  const kernel = await findGuestKernel();
  if (kernel === undefined) throw new Error("no guest kernel; npm test installs it");
  const image = await buildGuestImage(kernel);
  const example = await exampleNetwork();
  const secured = securedNetwork(example, ADDRESS.secured);
  const switches = await startSwitches(run, 0);
  const startNodes = async (side: keyof typeof BRIDGES) => {
    const { databaseSocket } = switches[side];
    const start = (name: string, announce: boolean) =>
      ClusterNode.start(run, { name, bridge: BRIDGES[side], databaseSocket, announce });
    const announcing = await start(`m${side}`, true);
    return { announced: announcing, silent: await start(`m${side}0`, false), secured: announcing };
  };
  const nodes = { a: await startNodes("a"), b: await startNodes("b") };
  let pods = 0;
  const podOn = (node: ClusterNode, name: keyof typeof MAC) => {
    const vmi = smallVmi({ name: `moving-${name}`, mac: MAC[name] });
    pods += 1;
    const network = name === "secured" ? secured : example;
    return new VmPod({ run, node, name: `m${pods}`, vmi, network, image });
  };
  const boot = async (node: ClusterNode, name: keyof typeof MAC) => {
    const vm = podOn(node, name);
    await startVm(vm);
    await vm.guest.setAddress(MAC[name], `${ADDRESS[name]}/24`);
    return vm;
  };
  const [peer, ...moving] = await Promise.all([
    boot(nodes.a.silent, "peer"),
    boot(nodes.a.announced, "announced"),
    boot(nodes.a.silent, "silent"),
    boot(nodes.a.secured, "secured"),
  ]);
  const vms = { announced: moving[0], silent: moving[1], secured: moving[2] };
  const seen: Readonly<Record<Mode, Missed[]>> = { announced: [], silent: [], secured: [] };
  const migrateTo = async (side: keyof typeof nodes, mode: Mode): Promise<Missed> => {
    const source = vms[mode];
    const target = podOn(nodes[side][mode], mode);
    await startTarget(target);
    await peer.guest.waitForPeer(ADDRESS[mode]);
    const pinging = await peer.guest.startPing(ADDRESS[mode], PING_MS);
    const { downtimeMs } = await source.libvirt.migrate(source.domainName, target.libvirt);
    await peer.guest.waitForPeer(ADDRESS[mode]);
    const { longestGapMs, longestLossMs } = await pinging.stop();
    await endVm(source);
    vms[mode] = target;
    const missed = {
      lost: Math.max(0, longestLossMs - downtimeMs),
      silent: Math.max(0, longestGapMs - downtimeMs),
    };
    seen[mode].push(missed);
    const beyond = `beyond it ${missed.lost} ms of lost pings, ${missed.silent} ms without an answer`;
    run.progress(`${mode}, to node ${side}: downtime ${downtimeMs} ms, ${beyond}`);
    return missed;
  };
  return {
    migrate: async (mode) => {
      const figures = await migrateTo("b", mode);
      if (isTrial !== true) await migrateTo("a", mode);
      return figures;
    },
    seen,
  };
}

const medianLoss = (missed: readonly Missed[]) => spreadOf(missed.map(({ lost }) => lost)).median;
const longestLoss = (missed: readonly Missed[]) => Math.max(...missed.map(({ lost }) => lost));
const medianSilence = (missed: readonly Missed[]) => spreadOf(missed.map(({ silent }) => silent)).median;

const PER_MIGRATION = {
  unit: "ms",
  repetitions: ROUND_TRIPS,
  shows: "median",
  aim: atMost(50, "<= 50 ms"),
} as const satisfies Partial<Measurement<MigrationRig>>;

/** What a peer misses of a VM that migrates from one switch to another, with a ping every 10 ms. */
export const migrationSuite: SuiteDefinition<MigrationRig> = {
  name: "migration",
  peer: "the same without an announcement: only the guest's own frames update the network",
  measurements: [
    {
      ...PER_MIGRATION,
      name: "outage beyond the hypervisor's downtime, behind the link, median",
      ours: async ({ migrate }) => (await migrate("announced")).lost,
      peer: async ({ migrate }) => (await migrate("silent")).lost,
    },
    ofAll("outage beyond the hypervisor's downtime, median", medianLoss, atMost(50, "<= 50 ms")),
    ofAll("outage beyond the hypervisor's downtime, the longest", longestLoss, atMost(100, "<= 100 ms")),
    ofAll("time without an answer beyond the hypervisor's downtime, median", medianSilence),
    {
      ...PER_MIGRATION,
      name: "outage with port security, behind the link, median",
      ours: async ({ migrate }) => (await migrate("secured")).lost,
    },
    ofSecured("outage with port security, median", medianLoss, atMost(50, "<= 50 ms")),
    ofSecured("outage with port security, the longest", longestLoss, atMost(100, "<= 100 ms")),
    ofSecured("time without an answer with port security, median", medianSilence),
  ],
};

/** A figure of all migrations in both directions, which a measurement before it has made. */
function ofAll(
  name: string,
  figure: (missed: readonly Missed[]) => number,
  aim?: Aim,
): Measurement<MigrationRig> {
  return {
    name,
    unit: "ms",
    repetitions: 1,
    shows: "median",
    ours: async ({ seen }) => figure(seen.announced),
    peer: async ({ seen }) => figure(seen.silent),
    ...(aim === undefined ? {} : { aim }),
  };
}

/** The same of a VM in a network with port security. */
function ofSecured(...named: Parameters<typeof ofAll>): Measurement<MigrationRig> {
  const { peer: _, ...measurement } = ofAll(...named);
  const [, figure] = named;
  return { ...measurement, ours: async ({ seen }) => figure(seen.secured) };
}
