import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { VppStandIn } from "../../../test/stand-in/vpp/vpp.ts";
import { connectVpp, type VppConnection } from "../../protocols/vpp-api/connection.ts";
import { createBridge } from "./bridges.ts";
import { SharedViews } from "./shared-views.ts";

const soon = () => AbortSignal.timeout(30_000);
let directory: string;
let vpp: VppStandIn;
let connection: VppConnection;
let views: SharedViews;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-vpp-"));
  const path = join(directory, "api.sock");
  vpp = new VppStandIn({ path });
  await vpp.start();
  connection = await connectVpp({ path }, soon());
  views = new SharedViews();
});
afterEach(async () => {
  connection.close();
  await vpp.kill();
  await rm(directory, { recursive: true });
});

describe("readings of VPP that are shared", () => {
  it("are the same for all that come at the same time, and new for who comes during one", async () => {
    const [one, two] = [views.read(connection, soon()), views.read(connection, soon())];
    const made = one.then((view) => createBridge(connection, view, "blue", soon()));
    expect(await two).toBe(await one);
    await made;
    const after = await Promise.all([views.read(connection, soon()), views.read(connection, soon())]);
    expect(after[0]).toBe(after[1]);
    expect(after[0]).not.toBe(await one);
    expect(after[0].bridges.map(({ bd_tag }) => bd_tag)).toContain("blue");
  });

  it("never began before they were asked for", async () => {
    const first = views.read(connection, soon());
    // The first is under way: its requests are written in this turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
    const second = views.read(connection, soon());
    expect(await second).not.toBe(await first);
  });

  it("end for one caller without ending for the others", async () => {
    const impatient = new AbortController();
    const [one, two] = [views.read(connection, impatient.signal), views.read(connection, soon())];
    impatient.abort();
    await expect(one).rejects.toMatchObject({ code: "dataplane-timeout" });
    expect((await two).ports).toEqual([]);
  });

  it("fail with the connection, and the next connection has its own", async () => {
    await vpp.kill();
    await expect(views.read(connection, soon())).rejects.toMatchObject({ code: "dataplane-unavailable" });
    await vpp.start();
    connection = await connectVpp({ path: join(directory, "api.sock") }, soon());
    expect((await views.read(connection, soon())).ports).toEqual([]);
  });
});
