import { setTimeout as delay } from "node:timers/promises";
import { interfaceTable, VHOST_CLIENT } from "../../../src/dataplane/ovs/tables.ts";
import { silentLogger } from "../../../src/logging/logger.ts";
import { createOvsdbClient } from "../../../src/protocols/ovsdb/connection.ts";
import { requireCommitted } from "../../../src/protocols/ovsdb/transaction.ts";
import { BRIDGES } from "../../cluster/switch.ts";
import { addNetworkNamespace } from "../../lab/network-namespace.ts";
import { joinBridges, type OvsDpdk } from "../../lab/ovs-dpdk.ts";
import { BenchNode } from "../bench-node.ts";
import type { Bench } from "../bench-suite.ts";
import { CniCalls } from "../cni-calls.ts";
import type { Measurement, SuiteDefinition } from "../measurement.ts";
import { timeWork } from "../timed-program.ts";

const PORTS = 100;
const RECORDS = 1000;
const LIMIT_MS = 60_000;
/** Looking costs the database time, too. */
const POLL_MS = 10;
/** A scrape costs the daemon what is measured, so it is left alone for longer. */
const SCRAPE_MS = 250;
/** After a repair the daemon waits for a second before the next. */
const QUIET_MS = 1_100;

/** How much is done for a figure. */
interface Sizes {
  readonly ports: number;
  readonly records: number;
}

/** A daemon, the allocations of its pods, and the ports that some of them have. */
export interface RecoveryRig {
  readonly ovs: OvsDpdk;
  readonly node: BenchNode;
  readonly cni: CniCalls;
  readonly sizes: Sizes;
  ports: number;
  records: number;
}

/** A daemon with enough devices, none of them in use. */
export async function openRecoveryRig({ run, ovs, isTrial }: Bench): Promise<RecoveryRig> {
  const sizes = isTrial === true ? { ports: 3, records: 10 } : { ports: PORTS, records: RECORDS };
  const dataplane = { type: "ovs-dpdk", database: ovs.databaseSocket, bridge: BRIDGES.a } as const;
  const node = await BenchNode.open(run, { name: "rec", dataplane, devices: sizes.records });
  await node.startDaemon();
  const cni = await CniCalls.open(node, (await addNetworkNamespace(run, "rec")).path);
  return { ovs, node, cni, sizes, ports: 0, records: 0 };
}

/** What it takes until all is as it was: after the switch lost it, and after the daemon was down. */
export const recoverySuite: SuiteDefinition<RecoveryRig> = {
  name: "recovery",
  peer: null,
  measurements: [
    {
      name: `${PORTS} ports again after ovs-vswitchd was killed, from its start`,
      unit: "ms",
      repetitions: 5,
      prepare: growPorts,
      ours: async ({ ovs, ports }) => {
        await ovs.killVswitchd();
        return timeWork(async () => {
          await ovs.restartVswitchd();
          await untilInSwitch(ovs, ports);
        });
      },
      shows: "median",
    },
    {
      name: `${PORTS} ports again after the database was lost, from the bridge's making`,
      unit: "ms",
      repetitions: 5,
      prepare: growPorts,
      ours: async ({ ovs, ports }) => {
        await ovs.startEmpty();
        const bridges = Object.values(BRIDGES).flatMap((name) => [
          ...["--", "add-br", name],
          ...["--", "set", "Bridge", name, "datapath_type=netdev"],
        ]);
        const ms = await timeWork(async () => {
          await ovs.vsctl(...bridges);
          await untilInDatabase(ovs, ports);
        });
        await joinBridges(ovs, BRIDGES.a, BRIDGES.b);
        return ms;
      },
      shows: "median",
    },
    {
      name: `one of ${PORTS} ports again after ovs-vsctl del-port`,
      unit: "ms",
      repetitions: 30,
      prepare: growPorts,
      ours: async ({ ovs, ports }) => {
        await delay(QUIET_MS);
        const [first] = await portNames(ovs);
        if (first === undefined) throw new Error("there is no port to delete");
        await ovs.vsctl("--no-wait", "del-port", first);
        return timeWork(() => untilInDatabase(ovs, ports));
      },
    },
    startToReconciled(`${PORTS} allocations with a port each`, growPorts),
    startToReconciled(`${RECORDS} allocations, ${PORTS} with a port`, growRecords),
    {
      name: `a pass over ${RECORDS} allocations, ${PORTS} with a port`,
      unit: "ms",
      repetitions: 20,
      prepare: async (rig) => {
        await growRecords(rig);
        await rig.node.setReclaim({ intervalSeconds: 0.5, graceSeconds: 3600 });
        await nextPass(rig.node);
      },
      ours: ({ node }) => nextPass(node),
    },
  ],
};

/** From the start of the daemon's process until it has restored everything in its records. */
function startToReconciled(
  what: string,
  prepare: (rig: RecoveryRig) => Promise<void>,
): Measurement<RecoveryRig> {
  return {
    name: `daemon start to reconciled, ${what}`,
    unit: "ms",
    repetitions: 5,
    prepare,
    ours: async ({ node }) => {
      await node.stopDaemon();
      const began = Date.now();
      await node.startDaemon();
      // It says itself when its pass was through, so that looking for it is not part of the time.
      const at = () => node.metric("vhostuser_reconcile_last_ok_timestamp_seconds");
      await until(async () => (await at()) > 0, "the first pass", SCRAPE_MS);
      return (await at()) * 1000 - began;
    },
    shows: "median",
  };
}

async function growPorts(rig: RecoveryRig): Promise<void> {
  for (; rig.ports < rig.sizes.ports; rig.ports += 1) {
    await rig.cni.add(rig.cni.sandbox(await rig.cni.admit()));
    rig.records += 1;
  }
}

async function growRecords(rig: RecoveryRig): Promise<void> {
  await growPorts(rig);
  for (; rig.records < rig.sizes.records; rig.records += 1) await rig.cni.admit();
}

/** Waits for a pass that begins and ends from now on. @returns how long it took, in milliseconds */
async function nextPass(node: BenchNode): Promise<number> {
  const read = async () => {
    const [count, sum] = await Promise.all(
      ["count", "sum"].map((part) =>
        node.metric(`vhostuser_reconcile_pass_duration_seconds_${part}{outcome="ok"}`),
      ),
    );
    return { count: count ?? 0, sum: sum ?? 0 };
  };
  const before = await read();
  let after = before;
  await until(
    async () => {
      after = await read();
      return after.count > before.count;
    },
    "a pass",
    SCRAPE_MS,
  );
  return ((after.sum - before.sum) * 1000) / (after.count - before.count);
}

/** The switch's own view: the database keeps a port's number over a restart. */
async function untilInSwitch(ovs: OvsDpdk, ports: number): Promise<void> {
  await until(async () => {
    const text = await ovs.ofctl(BRIDGES.a, "dump-ports-desc");
    return [...text.matchAll(/\(vhu[0-9a-f]+\)/g)].length >= ports;
  }, "all ports in the switch");
}

/** All ports in a database that had not all of them, each with the number that the switch gave it. */
async function untilInDatabase(ovs: OvsDpdk, ports: number): Promise<void> {
  await until(async () => (await portNames(ovs)).length >= ports, "all ports in the database");
}

async function portNames({ databaseSocket }: OvsDpdk): Promise<readonly string[]> {
  const client = createOvsdbClient({ path: databaseSocket, database: "Open_vSwitch", logger: silentLogger });
  try {
    const { operation, read } = interfaceTable.select(["type", "==", VHOST_CLIENT]);
    const outcome = await client.transact([operation], AbortSignal.timeout(LIMIT_MS));
    const rows = read(requireCommitted([operation], outcome)[0]);
    return rows.filter(({ ofport = 0 }) => ofport > 0).map(({ name }) => name);
  } finally {
    client.close();
  }
}

async function until(isDone: () => Promise<boolean>, what: string, everyMs = POLL_MS): Promise<void> {
  const end = performance.now() + LIMIT_MS;
  while (!(await isDone())) {
    if (performance.now() > end) throw new Error(`${what}: not within ${LIMIT_MS} ms`);
    await delay(everyMs);
  }
}
