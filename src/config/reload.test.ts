import { describe, expect, it } from "vitest";
import { parseConfig } from "./load.ts";
import { planReload, takesEffectAtOnce } from "./reload.ts";

interface PoolText {
  readonly name: string;
  readonly resource?: string;
  readonly capacity?: number;
  readonly bridge?: string;
  readonly database?: string;
}

function config(pools: readonly PoolText[], top: Readonly<Record<string, unknown>> = {}) {
  const text = {
    node: "n1",
    ...top,
    pools: pools.map(({ name, resource = `vhostuser/${name}`, capacity = 4, bridge = "br0", database }) => ({
      name,
      resource,
      capacity,
      dataplane: { type: "ovs-dpdk", bridge, ...(database === undefined ? {} : { database }) },
    })),
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

  it.each([
    { key: "reclaim.graceSeconds", atOnce: true },
    { key: "pools[].capacity", atOnce: true },
    { key: "pools[].directory.owner", atOnce: true },
    { key: "pools[].dataplane.bridge", atOnce: true },
    { key: "pools[].dataplane.database", atOnce: false },
    { key: "pools[].dataplane.type", atOnce: false },
    { key: "kubelet.devicePlugins", atOnce: false },
    { key: "rootFileSystem.inodes", atOnce: false },
  ])("tells of $key whether it takes effect at once: $atOnce", ({ key, atOnce }) => {
    expect(takesEffectAtOnce(key)).toBe(atOnce);
  });
});
