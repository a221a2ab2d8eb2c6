import { expect, it } from "vitest";
import { MemoryDataplane } from "../../test/stand-in/dataplane/memory-dataplane.ts";
import { systemClock } from "../sync/clock.ts";
import { Metrics } from "./metrics.ts";
import { ObservedDataplanes } from "./observed-dataplane.ts";

const soon = () => AbortSignal.timeout(30_000);

it("reading the status of a switch that is away counts no error", async () => {
  const metrics = new Metrics();
  const dataplane = new MemoryDataplane();
  const observed = new ObservedDataplanes(metrics, systemClock).observe(dataplane);
  const looks = () => Promise.allSettled([observed.inspectPorts(soon()), observed.version(soon())]);
  const calls = async () =>
    [...(await metrics.text()).matchAll(/^vhostuser_dataplane_call_duration_seconds_count\{(.*)\} (\d+)$/gm)]
      .map(([, labels, count]) => `${labels} ${count}`)
      .sort();
  dataplane.dead = true;
  expect((await looks()).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect([await calls(), await metrics.counts("vhostuser_errors_total")]).toEqual([[], []]);
  await expect(observed.listPorts(soon())).rejects.toThrow("does not answer");
  dataplane.dead = false;
  await looks();
  expect(await calls()).toEqual([
    'call="inspect-ports",outcome="ok" 1',
    'call="list-ports",outcome="failed" 1',
    'call="version",outcome="ok" 1',
  ]);
  expect(await metrics.counts("vhostuser_errors_total")).toMatchObject([{ value: 1 }]);
});

it("a switch that is closed while it lists its ports does not count as answering", async () => {
  const observed = new ObservedDataplanes(new Metrics(), systemClock);
  const kept = new MemoryDataplane();
  const removed = new MemoryDataplane();
  const listing = Promise.withResolvers<void>();
  removed.hang = listing.promise;
  const [stays, goes] = [observed.observe(kept), observed.observe(removed)];
  await stays.listPorts(soon());
  const listed = goes.listPorts(soon());
  await goes.close();
  listing.resolve();
  expect(await listed).toEqual([]);
  expect(observed.downFor()).toEqual(new Map());
  kept.dead = true;
  await expect(stays.listPorts(soon())).rejects.toThrow("does not answer");
  expect(observed.downFor()).toBeUndefined();
});
