import { describe, expect, it } from "vitest";
import { ipv4Bytes, ipv6Bytes, isLoopback } from "./host-address.ts";

describe("an IP address as bytes", () => {
  it("is four of them, or sixteen in whatever form it is written", () => {
    expect(ipv4Bytes("10.9.0.255").toString("hex")).toBe("0a0900ff");
    for (const [text, hex] of [
      ["fd09::5", "fd090000000000000000000000000005"],
      ["::", "00000000000000000000000000000000"],
      ["1:2:3:4:5:6:7:8", "00010002000300040005000600070008"],
      ["fe80::1%eth0", "fe800000000000000000000000000001"],
      ["::ffff:10.0.0.1", "00000000000000000000ffff0a000001"],
      ["64:ff9b::192.0.2.33", "0064ff9b0000000000000000c0000221"],
    ] as const) {
      expect(ipv6Bytes(text).toString("hex")).toBe(hex);
    }
  });
});

describe("a loopback address", () => {
  it.each(["127.0.0.1", "127.9.9.9", "::1", "0:0:0:0:0:0:0:1"])("is %s", (address) => {
    expect(isLoopback(address)).toBe(true);
  });

  it.each(["0.0.0.0", "::", "10.0.0.1", "169.254.0.1", "fe80::1", "localhost", "127.0.0.1:80", "127.1", ""])(
    "is not %s",
    (address) => {
      expect(isLoopback(address)).toBe(false);
    },
  );
});
