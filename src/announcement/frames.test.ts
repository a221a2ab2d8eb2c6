import { describe, expect, it } from "vitest";
import { portSettingsSchema } from "../config/port-settings.ts";
import type { PortRecord } from "../records/port-record.ts";
import {
  announcementFrames,
  gratuitousArp,
  guestIdentity,
  neighbourAdvertisement,
  rarpRequest,
  unusedGroup,
} from "./frames.ts";

const MAC = "02:00:00:00:01:0a";

/** The bytes of a frame, padded as a wire pads them. */
const bytes = (...parts: readonly string[]) => parts.join("").padEnd(120, "0");

describe("the frames of an announcement", () => {
  it("ask by RARP for the guest's own address", () => {
    expect(rarpRequest(MAC).toString("hex")).toBe(
      bytes(
        "ffffffffffff",
        "02000000010a",
        "8035",
        "0001080006040003",
        "02000000010a00000000",
        "02000000010a00000000",
      ),
    );
  });

  it("ask by ARP for the address that the guest has", () => {
    expect(gratuitousArp(MAC, "10.9.0.200").toString("hex")).toBe(
      bytes(
        "ffffffffffff",
        "02000000010a",
        "0806",
        "0001080006040001",
        "02000000010a0a0900c8",
        "0000000000000a0900c8",
      ),
    );
  });

  it("advertise an IPv6 address to all nodes, as a router's, in place of what they know", () => {
    expect(neighbourAdvertisement(MAC, "2001:db8::5").toString("hex")).toBe(
      [
        "33330000000102000000010a86dd",
        "6000000000203aff",
        "20010db8000000000000000000000005",
        "ff020000000000000000000000000001",
        "88007819a0000000",
        "20010db8000000000000000000000005",
        "020102000000010a",
      ].join(""),
    );
  });

  it.each([
    ["::1", "00000000000000000000000000000001"],
    ["2001:db8:1:2:3:4:5:6", "20010db8000100020003000400050006"],
    ["fe80::a%eth0", "fe80000000000000000000000000000a"],
    ["64:ff9b::192.0.2.33", "0064ff9b0000000000000000c0000221"],
    ["1::", "00010000000000000000000000000000"],
  ])("read %s", (text, hex) => {
    expect(neighbourAdvertisement(MAC, text).subarray(22, 38).toString("hex")).toBe(hex);
  });

  it("have a checksum that a receiver finds right", () => {
    const frame = neighbourAdvertisement("02:ff:fe:ff:ff:ff", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff");
    let sum = 32 + 58;
    for (let at = 22; at < frame.length; at += 2) sum += frame.readUInt16BE(at);
    expect(sum % 0xffff).toBe(0);
  });

  it("are two for the MAC, two for each tag and one for each address", () => {
    const group = unusedGroup();
    const announced = { mac: MAC, addresses: ["10.9.0.200", "2001:db8::5"], vlans: [5, 4094] };
    const frames = announcementFrames(announced, group);
    const rarp = rarpRequest(MAC).toString("hex");
    const toGroup = `${group.toString("hex")}${rarp.slice(12)}`;
    expect(frames.map((frame) => frame.toString("hex"))).toEqual([
      rarp,
      toGroup,
      `${rarp.slice(0, 24)}81000005${rarp.slice(24)}`,
      `${toGroup.slice(0, 24)}81000005${rarp.slice(24)}`,
      `${rarp.slice(0, 24)}81000ffe${rarp.slice(24)}`,
      `${toGroup.slice(0, 24)}81000ffe${rarp.slice(24)}`,
      gratuitousArp(MAC, "10.9.0.200").toString("hex"),
      neighbourAdvertisement(MAC, "2001:db8::5").toString("hex"),
    ]);
  });
});

const range = (count: number) => Array.from({ length: count }, (_, index) => index + 1);
const vlansOf = (vlan: object) =>
  guestIdentity({ mac: MAC, settings: portSettingsSchema.parse({ vlan }) }).vlans;

describe("the identity of a guest", () => {
  it("is its MAC and the addresses that IPAM gave, without their prefix lengths", () => {
    const ips = [{ address: "10.9.0.5/24", gateway: "10.9.0.1" }, { address: "2001:db8::5/64" }];
    const lease: PortRecord["lease"] = {
      containerId: "c1",
      type: "host-local",
      request: { stdin: "{}", env: {} },
      given: { ips, routes: [], dns: { nameservers: [], search: [], options: [] } },
    };
    const settings = portSettingsSchema.parse({});
    expect(guestIdentity({ mac: MAC, lease, settings })).toEqual({
      mac: MAC,
      addresses: ["10.9.0.5", "2001:db8::5"],
      vlans: [],
    });
  });

  it("has none of the addresses that it may send from but need not have", () => {
    const settings = portSettingsSchema.parse({ security: { addresses: ["10.9.0.9"] } });
    expect(guestIdentity({ mac: MAC, settings }).addresses).toEqual([]);
  });

  it.each([
    ["no tag in an access port", { mode: "access", tag: 5 }, []],
    ["the tags of a trunk, of which 0 is not a VLAN", { mode: "trunk", trunks: [0, 7, 9] }, [7, 9]],
    ["those beside the native VLAN", { mode: "native-untagged", tag: 5, trunks: [5, 7] }, [7]],
    ["the customer's own in a tunnel", { mode: "dot1q-tunnel", tag: 100, customerVlans: [5, 7] }, [5, 7]],
    ["no tag in a trunk of all VLANs", { mode: "trunk" }, []],
    ["256 tags", { mode: "trunk", trunks: range(256) }, range(256)],
    ["no tag in a trunk of more", { mode: "trunk", trunks: range(257) }, []],
  ])("is %s", (_, vlan, expected) => {
    expect(vlansOf(vlan)).toEqual(expected);
  });
});
