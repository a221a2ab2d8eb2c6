import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ApiRig, startApiRig } from "../../test/stand-in/api-server/api-rig.ts";
import { at } from "../../test/stand-in/api-server/object-store.ts";
import { IpamCluster } from "../../test/stand-in/ipam/cluster.ts";
import { readExposition } from "../../test/stand-in/prometheus/read-exposition.ts";
import { IPAM_CONTROLLER_METRICS } from "../observe/declared-ipam-metrics.ts";
import { PROCESS_METRICS } from "../observe/declared-metrics.ts";
import { serveController } from "./serve.ts";

let rig: ApiRig;
let cluster: IpamCluster;
let stops: AbortController[];
let running: Promise<void>[];

beforeEach(async () => {
  rig = await startApiRig();
  rig.server.namespaces.add("ipam");
  cluster = new IpamCluster(rig.server);
  [stops, running] = [[], []];
});
afterEach(async () => {
  for (const stop of stops) stop.abort("SIGTERM");
  await Promise.all(running);
  await rig.close();
});

/** Starts a replica. @returns where its pages are */
async function start(identity: string): Promise<string> {
  const { clock, logger, server, serviceAccountDirectory } = rig;
  const stop = new AbortController();
  stops.push(stop);
  const serving = Promise.withResolvers<string>();
  const over = serveController({
    ...{ namespace: "ipam", identity, serviceAccountDirectory, clock, logger, signal: stop.signal },
    listen: { address: "127.0.0.1", port: 0 },
    ...{ apiServer: undefined, apiServerUrl: server.url, onServing: serving.resolve },
  });
  running.push(over);
  return Promise.race([serving.promise, over.then(() => "")]);
}
const holder = () => at(rig.server.store.all("ipam/leases")[0], "spec.holderIdentity");
const read = async (url: string) => {
  const response = await fetch(url);
  return { status: response.status, text: await response.text() };
};
/** Values of a metric by its labels. */
async function values(url: string, name: string): Promise<readonly (readonly [object, number])[]> {
  const { text } = await read(`${url}/metrics`);
  const lines = text.split("\n").filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
  return lines.map((line) => {
    const [, labels = "", value] = /^\w+(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    return [
      Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map((one) => one.slice(1))),
      Number(value),
    ];
  });
}

describe("the controller", () => {
  it("makes the default space, and works while it has the Lease, with metrics of what it sees", async () => {
    cluster.pool("blue", ["10.0.0.0/24"]);
    cluster.node("n1");
    cluster.block("10.0.0.0/28", "n1", 4);
    const url = await start("one");
    await rig.until(() => at(rig.server.store.all("addresspools")[0], "status.used") === 4, 100);
    expect(holder()).toBe("one");
    expect(rig.server.store.get("addressspaces", "default")).toBeDefined();
    const exposed = readExposition((await read(`${url}/metrics`)).text);
    expect([...exposed.keys()].sort()).toEqual(
      Object.keys({ ...IPAM_CONTROLLER_METRICS, ...PROCESS_METRICS }).sort(),
    );
    expect(await values(url, "vhostuser_ipam_pool_addresses")).toEqual([[{ pool: "blue" }, 254]]);
    expect(await values(url, "vhostuser_ipam_pool_addresses_free")).toEqual([[{ pool: "blue" }, 250]]);
    expect(await values(url, "vhostuser_ipam_pool_condition")).toContainEqual([
      { pool: "blue", condition: "Ready" },
      1,
    ]);
    expect(await values(url, "vhostuser_ipam_blocks")).toContainEqual([{ owner: "Node", state: "Bound" }, 1]);
    expect(await values(url, "vhostuser_ipam_controller_leading")).toEqual([[{}, 1]]);
  });

  it("has no series of pools while another replica leads, takes over when that one stops, and is ready all the while", async () => {
    cluster.pool("blue", ["10.0.0.0/24"]);
    const first = await start("one");
    await rig.until(() => holder() === "one", 100);
    const second = await start("two");
    await rig.clock.advance(10_000);
    expect(await values(second, "vhostuser_ipam_controller_leading")).toEqual([[{}, 0]]);
    expect(await values(second, "vhostuser_ipam_pool_addresses")).toEqual([]);
    stops[0]?.abort("SIGTERM");
    await running[0];
    await rig.until(() => holder() === "two", 100);
    await expect(read(`${first}/livez`)).rejects.toThrow();
    expect((await read(`${second}/readyz`)).status).toBe(200);
    expect((await read(`${second}/livez`)).status).toBe(200);
  });

  it("is not ready while the API server does not answer, and alive", async () => {
    const url = await start("one");
    await rig.until(() => holder() === "one", 100);
    rig.server.verbs.clear();
    await rig.clock.advance(5_000);
    const problem = "the API server does not serve the Lease";
    await rig.until(() => rig.logged.includes(`warn ${problem}`), 100);
    await rig.clock.advance(30_000);
    expect(await read(`${url}/readyz`)).toMatchObject({
      status: 503,
      text: expect.stringMatching(/API server: NOT OK, kube-api-refused: .*403/),
    });
    expect((await read(`${url}/livez`)).status).toBe(200);
  });

  it("loses the Lease, waits for it, and leads again", async () => {
    await start("one");
    await rig.until(() => rig.logged.filter((line) => line === "info leading").length === 1, 100);
    rig.server.verbs.delete("update");
    await rig.until(() => rig.logged.includes("info not leading any more"), 500);
    rig.server.verbs.add("update");
    await rig.until(() => rig.logged.filter((line) => line === "info leading").length === 2, 500);
  });

  it("looks at once when a node is removed, and reclaims its blocks", async () => {
    cluster.space();
    cluster.node("n1");
    cluster.block("10.0.0.0/28", "n1");
    const url = await start("one");
    await rig.until(() => rig.logged.includes("info leading"), 100);
    const passes = () => values(url, "vhostuser_ipam_passes_total");
    for (let count = 0; count === 0; [, count = 0] = (await passes())[0] ?? []);
    await rig.clock.advance(6_000);
    const { length } = rig.server.answers;
    cluster.remove("nodes", "n1");
    // The clock stands: nothing else asks for anything.
    await rig.until(() => rig.server.answers.slice(length).includes("GET 404"));
    await rig.until(() => cluster.blocks[0]?.endsWith("Quarantined") === true, 500);
    await rig.until(() => cluster.blocks.length === 0, 500);
  });

  it("posts an event when a pool is nearly full", async () => {
    cluster.pool("blue", ["10.0.0.0/28"]);
    cluster.node("n1");
    cluster.space();
    cluster.block("10.0.0.0/28", "n1", 13);
    await start("one");
    await rig.until(() => rig.server.events.length > 0, 100);
    expect(rig.server.events).toMatchObject([
      {
        ...{ reason: "AddressPoolNearlyFull", reportingController: "kube-vhostuser.io/ipam-controller" },
        regarding: { kind: "AddressPool", name: "blue" },
      },
    ]);
  });

  it("as a program serves until SIGTERM, and gives its Lease back", async () => {
    const program = spawn(
      process.execPath,
      [
        ...["--no-warnings", join(import.meta.dirname, "main.ts"), "--api-server", rig.server.url],
        ...["--service-account", rig.serviceAccountDirectory, "--observe-port", "0", "--namespace", "ipam"],
      ],
      { stdio: ["ignore", "ignore", "inherit"], env: { POD_NAME: "pod-1" } },
    );
    const over = once(program, "exit");
    await rig.until(() => holder() === "pod-1");
    program.kill("SIGTERM");
    expect(await over).toEqual([0, null]);
    expect(holder()).toBe("");
  }, 60_000);
});
