import { describe, expect, it } from "vitest";
import { portSettingsSchema } from "../config/port-settings.ts";
import type { PortRecord } from "../records/port-record.ts";
import { guestIdentity } from "./guest-identity.ts";

const MAC = "02:00:00:00:00:01";
const range = (count: number) => Array.from({ length: count }, (_, index) => index + 1);
const vlansOf = (vlan: object) =>
  guestIdentity({ mac: MAC, settings: portSettingsSchema.parse({ vlan }) }).vlans;

describe("what there is to tell of a guest", () => {
  it("is its MAC and the addresses that IPAM gave, without their prefix lengths", () => {
    const ips = [{ address: "10.9.0.5/24", gateway: "10.9.0.1" }, { address: "2001:db8::5/64" }];
    const ipam: PortRecord["ipam"] = {
      type: "host-local",
      stdin: "{}",
      env: {},
      given: { ips, routes: [], dns: { nameservers: [], search: [], options: [] } },
    };
    const settings = portSettingsSchema.parse({});
    expect(guestIdentity({ mac: MAC, ipam, settings })).toEqual({
      mac: MAC,
      addresses: ["10.9.0.5", "2001:db8::5"],
      vlans: [],
    });
  });

  it("is none of the addresses that it may send from but need not have", () => {
    const settings = portSettingsSchema.parse({ security: { addresses: ["10.9.0.9"] } });
    expect(guestIdentity({ mac: MAC, settings }).addresses).toEqual([]);
  });

  it.each([
    ["no tag in an access port", { mode: "access", tag: 5 }, []],
    ["the tags of a trunk, of which 0 is none", { mode: "trunk", trunks: [0, 7, 9] }, [7, 9]],
    ["those beside the native VLAN", { mode: "native-untagged", tag: 5, trunks: [5, 7] }, [7]],
    ["the customer's own in a tunnel", { mode: "dot1q-tunnel", tag: 100, customerVlans: [5, 7] }, [5, 7]],
    ["no tag in a trunk of all VLANs", { mode: "trunk" }, []],
    ["256 tags", { mode: "trunk", trunks: range(256) }, range(256)],
    ["no tag in a trunk of more", { mode: "trunk", trunks: range(257) }, []],
  ])("is %s", (_, vlan, expected) => {
    expect(vlansOf(vlan)).toEqual(expected);
  });
});
