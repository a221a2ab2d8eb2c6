import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { vhostUserValues } from "../../../test/stand-in/vpp/vhost-user-values.ts";
import { VppStandIn } from "../../../test/stand-in/vpp/vpp.ts";
import { silentLogger } from "../../logging/logger.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import { createVppClient } from "../../protocols/vpp-api/connection.ts";
import { createVhostUser, deleteVhostUser } from "../../protocols/vpp-api/messages.ts";
import { KeyedMutex } from "../../sync/keyed-mutex.ts";
import type { VppContext } from "./context.ts";
import { nodeDigest } from "./mark.ts";
import { clearRouting, routePort } from "./route-port.ts";
import { addressOf } from "./routing.ts";
import { SharedViews } from "./shared-views.ts";
import { readView } from "./view.ts";

const soon = () => AbortSignal.timeout(30_000);
const ROUTING = {
  vrf: 0,
  mac: Buffer.alloc(6, 2),
  hosts: [addressOf("10.9.0.5")],
  gateways: [addressOf("10.9.0.1")],
};

let directory: string;
let vpp: VppStandIn;
let context: VppContext;
let connection: VppConnection;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "vpp-"));
  const path = join(directory, "api.sock");
  vpp = new VppStandIn({ path });
  await vpp.start();
  context = {
    client: createVppClient({ path, logger: silentLogger }),
    views: new SharedViews(),
    node: "node-a",
    ownersOf: () => [],
    gateways: new KeyedMutex(),
    sysfs: "/sys",
    logger: silentLogger,
  };
  connection = await context.client.connection(soon());
});
afterEach(async () => {
  context.client.close();
  await vpp.kill();
  await rm(directory, { recursive: true, force: true });
  expect(vpp.violations).toEqual([]);
});

async function create(tag: string): Promise<number> {
  const values = vhostUserValues(join(directory, "vhost.sock"), tag);
  return (await connection.request(createVhostUser, values, soon())).sw_if_index;
}

it.each([
  ["routed", routePort],
  ["cleared", clearRouting],
] as const)("a port is not %s where its number is somebody else's when its turn comes", async (_, act) => {
  const index = await create(`kvu1:${nodeDigest("node-a")}:0123456789ab:01234567:p`);
  const busy = Promise.withResolvers<void>();
  const first = context.gateways.run({ key: "gateways", what: "another port" }, () => busy.promise);
  const port = { name: "p", index };
  const done =
    act === routePort
      ? routePort(context, connection, port, ROUTING, { isNew: true }, soon())
      : clearRouting(context, connection, port, soon());
  await connection.request(deleteVhostUser, { sw_if_index: index }, soon());
  expect(await create("theirs")).toBe(index);
  const before = await readView(connection, soon());
  busy.resolve();
  await first;
  expect(await done).toBe(false);
  const after = await readView(connection, soon());
  expect([after.unnumbered, [...after.interfaces.keys()]]).toEqual([
    before.unnumbered,
    [...before.interfaces.keys()],
  ]);
});
