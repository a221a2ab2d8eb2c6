import { describe, expect, it } from "vitest";
import { checkJoined, parseConfig } from "./load.ts";
import { planReload, takesEffectAtOnce } from "./reload.ts";

interface PoolText {
  readonly name: string;
  readonly resource?: string;
  readonly capacity?: number;
  readonly bridge?: string;
  readonly database?: string;
  readonly keys?: Readonly<Record<string, unknown>>;
}

function config(pools: readonly PoolText[], top: Readonly<Record<string, unknown>> = {}) {
  const text = {
    node: "n1",
    ...top,
    pools: pools.map(
      ({ name, resource = `vhostuser/${name}`, capacity = 4, bridge = "br0", database, keys }) => ({
        ...keys,
        name,
        resource,
        capacity,
        dataplane: { type: "ovs-dpdk", bridge, ...(database === undefined ? {} : { database }) },
      }),
    ),
  };
  return parseConfig(JSON.stringify(text), "c.yaml");
}

const OLD = config([{ name: "a" }, { name: "b" }]);

describe("a reload", () => {
  it("finds nothing to do for the same configuration", () => {
    expect(planReload(OLD, config([{ name: "a" }, { name: "b" }]))).toEqual({
      config: OLD,
      added: [],
      removed: [],
      changed: [],
      waiting: [],
    });
  });

  it("tells pools that came, went and changed", () => {
    const next = config([{ name: "b", capacity: 9, bridge: "br9" }, { name: "c" }]);
    const plan = planReload(OLD, next);
    expect(plan).toEqual({ config: next, added: ["c"], removed: ["a"], changed: ["b"], waiting: [] });
  });

  it("takes the times of reclaiming at once", () => {
    const next = config([{ name: "a" }, { name: "b" }], { reclaim: { graceSeconds: 7 } });
    expect(planReload(OLD, next).config.reclaim).toEqual({ intervalSeconds: 30, graceSeconds: 7 });
  });

  it.each([
    { key: "node", top: { node: "n2" } },
    { key: "root", top: { root: "/run/other" } },
    { key: "switchRoot", top: { switchRoot: "/run/other" } },
    { key: "podRoot", top: { podRoot: "/run/other" } },
    { key: "recordsDirectory", top: { recordsDirectory: "/run/other" } },
    { key: "cniSocket", top: { cniSocket: "/run/other" } },
    { key: "deviceInfoDirectory", top: { deviceInfoDirectory: "/run/other" } },
    { key: "kubelet", top: { kubelet: { devicePlugins: "/run/other" } } },
    { key: "dataplaneResource", top: { dataplaneResource: "vhostuser/other" } },
  ])("leaves $key as it is until a restart, and takes the rest", ({ key, top }) => {
    const plan = planReload(OLD, config([{ name: "a", capacity: 5 }], top));
    expect(plan.waiting).toEqual([key]);
    expect(plan.config).toEqual(config([{ name: "a", capacity: 5 }]));
    expect(planReload(plan.config, config([{ name: "a", capacity: 5 }], top)).config).toEqual(plan.config);
  });

  it("takes at once whether guests are announced", () => {
    const plan = planReload(OLD, config([{ name: "a" }, { name: "b" }], { announce: false }));
    expect([plan.config.announce, plan.waiting]).toEqual([false, []]);
  });

  it("drops nothing that was given and is not any more", () => {
    const old = config([{ name: "a" }], { switchRoot: "/run/switch" });
    const plan = planReload(old, config([{ name: "a" }]));
    expect(plan.config.switchRoot).toBe("/run/switch");
    expect(plan.waiting).toEqual(["switchRoot"]);
  });

  it("keeps a pool at its switch, and takes its other bridge", () => {
    const plan = planReload(
      OLD,
      config([{ name: "a", database: "/run/x.sock", bridge: "br1" }, { name: "b" }]),
    );
    expect(plan.waiting).toEqual(["pools.a.dataplane.database"]);
    expect(plan.config).toEqual(config([{ name: "a", bridge: "br1" }, { name: "b" }]));
    expect(plan.changed).toEqual(["a"]);
  });

  it("takes another directory of the switch's sockets, and another server of the sockets, at once", () => {
    const old = config([{ name: "a", keys: { switchSockets: "/var/run/vhostuser/one" } }]);
    const next = config([
      { name: "a", keys: { switchSockets: "/var/run/vhostuser/two", socketServer: "switch" } },
    ]);
    expect(planReload(old, next)).toMatchObject({ config: next, changed: ["a"], waiting: [] });
    expect(planReload(old, config([{ name: "a" }]))).toMatchObject({ config: config([{ name: "a" }]) });
  });

  it("does not take one below a root that has to wait", () => {
    const old = config([{ name: "a" }]);
    const next = config([{ name: "a", keys: { switchSockets: "/srv/vhu/s" } }], { root: "/srv/vhu" });
    const { config: joined } = planReload(old, next);
    expect(() => checkJoined(joined, "c.yaml")).toThrow(/pools\.0\.switchSockets: must lie below root/);
  });

  it("leaves the directory of the switch's sockets as it is while the switch has to wait", () => {
    const [one, two] = [
      { switchSockets: "/var/run/vhostuser/one" },
      { switchSockets: "/var/run/vhostuser/two" },
    ];
    const next = config([{ name: "a", database: "/run/x.sock", keys: two }]);
    expect(planReload(config([{ name: "a", keys: one }]), next)).toMatchObject({
      config: config([{ name: "a", keys: one }]),
      waiting: ["pools.a.dataplane.database", "pools.a.switchSockets"],
    });
    expect(planReload(config([{ name: "a" }]), next).config).toEqual(config([{ name: "a" }]));
  });

  it.each([
    { key: "reclaim.graceSeconds", atOnce: true },
    { key: "pools[].capacity", atOnce: true },
    { key: "pools[].directory.owner", atOnce: true },
    { key: "pools[].dataplane.bridge", atOnce: true },
    { key: "pools[].dataplane.database", atOnce: false },
    { key: "pools[].dataplane.type", atOnce: false },
    { key: "pools[].socketServer", atOnce: true },
    { key: "pools[].switchSockets", atOnce: true },
    { key: "kubelet.devicePlugins", atOnce: false },
    { key: "rootFileSystem.inodes", atOnce: false },
  ])("tells of $key whether it takes effect at once: $atOnce", ({ key, atOnce }) => {
    expect(takesEffectAtOnce(key)).toBe(atOnce);
  });
});
