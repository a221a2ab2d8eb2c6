import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { vhostUserValues } from "../../../test/stand-in/vpp/vhost-user-values.ts";
import { startVppInDirectory, type VppInDirectory } from "../../../test/stand-in/vpp/vpp-in-directory.ts";
import { silentLogger } from "../../logging/logger.ts";
import { createVppClient } from "../../protocols/vpp-api/connection.ts";
import { createVhostUser, deleteVhostUser } from "../../protocols/vpp-api/messages.ts";
import { KeyedMutex } from "../../sync/keyed-mutex.ts";
import { nodeDigest } from "./mark.ts";
import { startWork, type VppContext, type VppWork } from "./requests.ts";
import { clearRouting, routePort } from "./route-port.ts";
import { readView } from "./view.ts";

const soon = () => AbortSignal.timeout(30_000);
const ROUTING = {
  vrf: 0,
  mac: Buffer.alloc(6, 2),
  hosts: ["10.9.0.5"],
  gateways: ["10.9.0.1"],
};

let node: VppInDirectory;
let context: VppContext;
let work: VppWork;

beforeEach(async () => {
  node = await startVppInDirectory();
  context = {
    client: createVppClient({ path: node.apiSocket, logger: silentLogger }),
    node: "node-a",
    ownersOf: () => [],
    gateways: new KeyedMutex(),
    sysfs: "/sys",
    logger: silentLogger,
  };
  work = await startWork(context, soon());
});
afterEach(async () => {
  context.client.close();
  await node.close();
  expect(node.vpp.violations).toEqual([]);
});

async function create(tag: string): Promise<number> {
  const values = vhostUserValues(join(node.directory, "vhost.sock"), tag);
  return (await work.request(createVhostUser, values)).sw_if_index;
}

it.each([
  ["routed", routePort],
  ["cleared", clearRouting],
] as const)(
  "a port is not %s where its number is another interface's once the gateways are locked",
  async (_, act) => {
    const index = await create(`kvu1:${nodeDigest("node-a")}:0123456789ab:01234567:p`);
    const busy = Promise.withResolvers<void>();
    const first = context.gateways.run({ key: "gateways", what: "another port" }, () => busy.promise);
    const port = { name: "p", index };
    const done =
      act === routePort ? routePort(work, port, ROUTING, { isNew: true }) : clearRouting(work, port);
    await work.request(deleteVhostUser, { sw_if_index: index });
    expect(await create("theirs")).toBe(index);
    const before = await readView(work);
    busy.resolve();
    await first;
    expect(await done).toBe("gone");
    const after = await readView(work);
    expect([after.unnumbered, [...after.interfaces.keys()]]).toEqual([
      before.unnumbered,
      [...before.interfaces.keys()],
    ]);
  },
);
