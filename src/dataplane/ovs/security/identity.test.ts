import { describe, expect, it } from "vitest";
import { linkLocalAddress } from "../../../protocols/ethernet/frames.ts";
import { readIdentity } from "./identity.ts";

const MAC = "02:00:00:00:00:01";

describe("what a guest may claim to be", () => {
  it("is read into bytes, each address once", () => {
    const addresses = ["10.0.0.5", "2001:DB8::5", "10.0.0.5", "2001:db8:0:0::5", "64:ff9b::192.0.2.33"];
    const { mac, ipv4, ipv6 } = readIdentity("02-00-00-AB-00-01", addresses);
    expect(mac.toString("hex")).toBe("020000ab0001");
    expect(ipv4.map((each) => each.toString("hex"))).toEqual(["0a000005"]);
    expect(ipv6.map((each) => each.toString("hex"))).toEqual([
      "20010db8000000000000000000000005",
      "0064ff9b0000000000000000c0000221",
    ]);
  });

  it.each([
    "",
    "10.0.0.0/24",
    "10.0.0",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "ff02::1",
    "::ffff:10.0.0.5",
    "fe80::1%eth0",
  ])("is no address of a host: %j", (address) => {
    expect(() => readIdentity(MAC, [address])).toThrow(`${JSON.stringify(address)} is not an address`);
  });

  it.each(["", "02:00:00:00:00", "01:00:00:00:00:01", "00:00:00:00:00:00"])(
    "is no MAC of a guest: %j",
    (mac) => {
      expect(() => readIdentity(mac, [])).toThrow("is not a MAC address that a guest can have");
    },
  );

  it("has the link-local address of its MAC", () => {
    const address = linkLocalAddress(Buffer.from("020000ab0001", "hex"));
    expect(address.toString("hex")).toBe("fe80000000000000000000fffeab0001");
  });
});
