import { describe, expect, it } from "vitest";
import type { PortSettings } from "../../config/port-settings.ts";
import type { PortRequest } from "../port.ts";
import { settingProblem } from "./misconfiguration.ts";

const why = (
  config: Readonly<Record<string, string>>,
  settings: PortSettings,
  iface_types = ["dpdkvhostuserclient", "dpdkvhostuser"],
) => {
  const request: Pick<PortRequest, "name" | "settings"> = { name: "vhu1", settings };
  return settingProblem({ other_config: new Map(Object.entries(config)), iface_types }, request)?.message;
};

describe("a switch that is not configured for a setting", () => {
  const tunnel: PortSettings = {
    vlan: { mode: "dot1q-tunnel", tag: 5, trunks: [], customerVlans: [] },
  };
  it.each([{}, { "vlan-limit": "1" }])("has one VLAN tag and is asked for a tunnel: %j", (config) => {
    expect(why(config, tunnel)).toContain("ovs-vsctl set Open_vSwitch . other_config:vlan-limit=2");
  });

  it.each([{ "vlan-limit": "2" }, { "vlan-limit": "0" }])("is not one with two: %j", (config) => {
    expect(why(config, tunnel)).toBeUndefined();
  });

  it("polls with other cores than requested", () => {
    const cores: PortSettings = { receiveQueueCores: [[0, 1], [1, 5]] }; // biome-ignore format: a pair each
    expect(why({ "pmd-cpu-mask": "0x2" }, cores)).toContain("core 5 to poll its queue 1");
    expect(why({ "pmd-cpu-mask": "23" }, cores)).toBeUndefined();
    expect(why({}, cores)).toBeUndefined();
  });

  it("would be left without a core for other ports", () => {
    const cores: PortSettings = { receiveQueueCores: [[0, 1], [1, 2]] }; // biome-ignore format: a pair each
    const mask = { "pmd-cpu-mask": "0x6" };
    expect(why(mask, cores)).toContain("other ports would go silent");
    expect(why({ ...mask, "pmd-rxq-isolate": "false" }, cores)).toContain("go silent");
    expect(why({ ...mask, "pmd-rxq-isolate": "false", "pmd-rxq-assign": "group" }, cores)).toBeUndefined();
    expect(why({ "pmd-cpu-mask": "0xe" }, cores)).toBeUndefined();
  });

  it("cannot serve sockets", () => {
    const settings: PortSettings = { socketServer: "switch" };
    expect(why({}, settings, ["dpdkvhostuserclient"])).toContain("no interface type dpdkvhostuser");
    expect(why({}, settings)).toBeUndefined();
  });
});
