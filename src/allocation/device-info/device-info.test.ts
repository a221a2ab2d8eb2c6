import { describe, expect, it } from "vitest";
import { vhostUserDeviceInfo, vhostUserDeviceInfoSchema } from "./device-info.ts";

describe("device-info of a vhost-user socket", () => {
  it.each([
    [undefined, "server"],
    ["guest", "server"],
    ["switch", "client"],
  ] as const)("with %j as the socket's server names the container's side: %s", (socketServer, mode) => {
    const info = vhostUserDeviceInfo("/var/run/vhostuser/a/net1/vhost.sock", socketServer);
    expect(info["vhost-user"].mode).toBe(mode);
    expect(vhostUserDeviceInfoSchema.parse(info)).toEqual(info);
  });
});
