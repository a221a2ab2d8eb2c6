import { describe, expect, it } from "vitest";
import {
  announcementFrames,
  gratuitousArp,
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
