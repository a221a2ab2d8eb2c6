import { expect, it } from "vitest";
import { MemoryDataplane } from "../../test/stand-in/dataplane/memory-dataplane.ts";
import { ManualClock } from "../../test/stand-in/manual-clock.ts";
import { parseConfig } from "../config/load.ts";
import { type Logger, silentLogger } from "../logging/logger.ts";
import { monitorPool, type PoolState } from "./pool-monitor.ts";

it("logs one line when the switch of two pools goes, one when it is back, and none between; two missing bridges are two", async () => {
  const clock = new ManualClock();
  const dataplane = new MemoryDataplane();
  dataplane.probe = async () =>
    dataplane.dead
      ? { ready: false, reason: `dataplane-unavailable: attempt at ${clock.monotonic()} failed` }
      : { ready: true };
  const lines: string[] = [];
  const note = (_: unknown, text = "") => void lines.push(text);
  const logger: Logger = { ...silentLogger, child: silentLogger.child, info: note, warn: note };
  const pool = (name: string) => ({
    ...{ resource: `vhostuser/${name}`, capacity: 1 },
    dataplane: { type: "ovs-dpdk", bridge: name },
  });
  const text = JSON.stringify({ node: "n", pools: { one: pool("one"), two: pool("two") } });
  const monitors = parseConfig(text, "c").pools.map((config) =>
    monitorPool({
      ...{ pool: { config, dataplane }, clock, logger },
      onProbed: () => undefined,
      rootProblem: async () => undefined,
    }),
  );
  await clock.advance(20_000);
  expect(lines.splice(0)).toEqual(["pool switch is ready"]);
  dataplane.dead = true;
  await clock.advance(10 * 60_000);
  expect(lines.splice(0)).toEqual(["pool switch is not ready"]);
  dataplane.dead = false;
  await clock.advance(10 * 60_000);
  expect(lines).toEqual(["pool switch is ready"]);
  lines.length = 0;
  dataplane.probe = async (bridge) => ({
    ready: false,
    reason: `bridge-missing: there is no bridge ${bridge}`,
  });
  await clock.advance(10 * 60_000);
  expect(lines).toEqual(["pool switch is not ready", "pool switch is not ready"]);
  await Promise.all(monitors.map((monitor) => monitor.close()));
});

it("reads the uplinks of pools with claims too, whatever their NUMA node, and of no pool that needs nothing of them", async () => {
  const clock = new ManualClock();
  const dataplane = new MemoryDataplane();
  dataplane.bridges.add("one").add("two").add("three");
  const asked: string[] = [];
  dataplane.uplink = async (bridge) => {
    asked.push(bridge);
    return { numaNode: 1, mtu: 9000 };
  };
  const states = new Map<string, PoolState>();
  const pool = (name: string, keys: object) => ({
    ...{ resource: `vhostuser/${name}`, capacity: 1, dataplane: { type: "ovs-dpdk", bridge: name }, ...keys },
  });
  const pools = {
    one: pool("one", { numaNode: "none" }),
    two: pool("two", { numaNode: "none", claims: { ports: 1 } }),
    three: pool("three", { numaNode: 3, claims: { ports: 1 } }),
  };
  const monitors = parseConfig(JSON.stringify({ node: "n", dra: { enabled: true }, pools }), "c").pools.map(
    (config) =>
      monitorPool({
        ...{ pool: { config, dataplane }, clock, logger: silentLogger },
        onProbed: (state) => states.set(config.name, state),
      }),
  );
  await clock.advance(20_000);
  expect(asked.sort()).toEqual(["three", "two"]);
  const uplinks = Object.fromEntries([...states].map(([name, { uplink }]) => [name, uplink]));
  expect(uplinks).toEqual({ one: {}, two: { mtu: 9000 }, three: { numaNode: 3, mtu: 9000 } });
  await Promise.all(monitors.map((monitor) => monitor.close()));
});
