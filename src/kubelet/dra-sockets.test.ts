import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { draSockets } from "./dra-sockets.ts";

const UID = "6d5a12f7-1c9b-4d0e-9f57-0f1f3b7f5d10";
const hash = (text: string, bytes: number) =>
  createHash("sha256").update(text).digest().subarray(0, bytes).toString("base64url");
const of = (driver: string, root: string, podUid: string | undefined = UID) =>
  draSockets({ driver, registryDirectory: `${root}/r`, pluginDirectory: `${root}/p`, podUid });

describe("the names of a DRA driver's sockets", () => {
  it("have the pod's UID, as Kubernetes' helper writes them", () => {
    expect(of("d.io", "/k")).toEqual({
      registration: `/k/r/d.io-${UID}-reg.sock`,
      service: `/k/p/dra-${UID}.sock`,
    });
  });

  it("are shorter where a path would be too long for a socket", () => {
    const driver = "vhostuser.kube-vhostuser.io";
    expect(of(driver, `/${"k".repeat(40)}`).registration).toMatch(
      new RegExp(`/${driver}-${hash(UID, 8)}-reg.sock$`),
    );
    expect(of(driver, `/${"k".repeat(60)}`)).toEqual({
      registration: `/${"k".repeat(60)}/r/dra-${hash(`${driver}\0${UID}`, 16)}-reg.sock`,
      service: `/${"k".repeat(60)}/p/dra-${hash(UID, 8)}.sock`,
    });
    expect(() => of(driver, `/${"k".repeat(100)}`)).toThrow("path-too-long");
  });

  it("have no UID where the daemon runs in no pod", () => {
    expect(
      draSockets({ driver: "d.io", registryDirectory: "/r", pluginDirectory: "/p", podUid: undefined }),
    ).toEqual({
      registration: "/r/d.io-reg.sock",
      service: "/p/dra.sock",
    });
  });
});
