import { expect, it } from "vitest";
import { MemoryDataplane } from "../../test/stand-in/dataplane/memory-dataplane.ts";
import { Metrics } from "./metrics.ts";
import { ObservedDataplanes } from "./observed-dataplane.ts";

const soon = () => AbortSignal.timeout(5000);

it("who looks at the status of a switch that is away raises no count of errors, and hears of it", async () => {
  const metrics = new Metrics();
  const dataplane = new MemoryDataplane();
  const observed = new ObservedDataplanes(metrics).observe(dataplane);
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
