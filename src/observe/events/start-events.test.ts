import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, expect, it } from "vitest";
import { FakeApiServer } from "../../../test/stand-in/api-server/fake-api-server.ts";
import { parseConfig } from "../../config/load.ts";
import { systemClock } from "../../sync/clock.ts";
import { type StartEventsOptions, startEvents } from "./start-events.ts";

let directory: string;
let logged: string[];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-events-"));
  logged = [];
});
afterEach(() => rm(directory, { recursive: true }));

const options = (events: object, change: Partial<StartEventsOptions> = {}): StartEventsOptions => ({
  config: parseConfig(
    JSON.stringify({
      node: "worker-1",
      events,
      pools: { sockets: { capacity: 1, dataplane: { type: "ovs-dpdk", bridge: "br0" } } },
    }),
    "test",
  ),
  ...{ apiServer: undefined, podName: "kube-vhostuser-x", clock: systemClock },
  ...{ ports: { list: () => [] }, downFor: () => undefined, pools: () => [] },
  unsettled: () => new Set<string>(),
  logger: pino({}, { write: (line) => logged.push(line) }),
  ...change,
});

it("posts nothing, and logs nothing, unless it is configured", () => {
  expect(startEvents(options({}, { apiServer: { host: "10.96.0.1", port: "443" } }))).toBeUndefined();
  expect(logged).toEqual([]);
});

it.each([
  ["no API server", {}, /KUBERNETES_SERVICE_HOST/],
  ["no token", { apiServer: { host: "fd00::1", port: "443" } }, /ENOENT.*token/],
] as const)("lets the daemon serve without events where there is %s", (_, change, reason) => {
  const events = { enabled: true, serviceAccountDirectory: directory };
  expect(startEvents(options(events, change))).toBeUndefined();
  expect(logged.join()).toMatch(reason);
});

it("posts what happens to the API server that the environment names", async () => {
  const api = await FakeApiServer.start();
  try {
    await writeFile(join(directory, "token"), "first");
    await writeFile(join(directory, "ca.crt"), api.ca);
    const { hostname: host, port } = new URL(api.url);
    let isHealthy = false;
    const events = startEvents(
      options(
        { enabled: true, serviceAccountDirectory: directory },
        { apiServer: { host, port }, pools: () => [{ name: "sockets", isHealthy }] },
      ),
    );
    events?.events.passEnded();
    events?.events.passEnded();
    isHealthy = true;
    events?.events.passEnded();
    await api.hasAnswered(2);
    await events?.close();
    expect(api.events).toMatchObject([
      {
        metadata: { namespace: "default" },
        reason: "SwitchUnreachable",
        reportingInstance: "kube-vhostuser-x",
      },
      { reason: "SwitchReady", regarding: { kind: "Node", name: "worker-1" } },
    ]);
  } finally {
    await api.close();
  }
});

it("refuses an API server without TLS", () => {
  expect(() => options({ enabled: true, apiServer: "http://10.96.0.1" })).toThrow(/apiServer/);
});
