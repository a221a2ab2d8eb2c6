import { describe, expect, it } from "vitest";
import { bridgeSocket, defaultRunDirectory } from "./bridge-socket.ts";

describe("the socket of a bridge", () => {
  it("lies beside the database's, and stays there whatever the bridge is called", () => {
    const directory = defaultRunDirectory("/run/openvswitch/db.sock");
    expect(bridgeSocket(directory, "br-a")).toBe("/run/openvswitch/br-a.mgmt");
    expect(() => bridgeSocket(directory, "../tmp/x")).toThrow("is not the name of a bridge");
    expect(() => bridgeSocket(directory, "")).toThrow("is not the name of a bridge");
    expect(() => bridgeSocket(`/${"r".repeat(100)}`, "br-a")).toThrow("107 are allowed");
  });
});
