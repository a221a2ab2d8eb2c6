import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { PortOwner } from "../../src/dataplane/port.ts";
import { createBridge } from "../../src/dataplane/vpp/bridges.ts";
import { type Offer, whyNotOffered } from "../../src/dataplane/vpp/offers.ts";
import { VppRequests } from "../../src/dataplane/vpp/requests.ts";
import { STATIC } from "../../src/dataplane/vpp/routed-state.ts";
import { bridgeName, readView, type View } from "../../src/dataplane/vpp/view.ts";
import { openVppDataplane } from "../../src/dataplane/vpp/vpp-dataplane.ts";
import { silentLogger } from "../../src/logging/logger.ts";
import { connectVpp, type VppConnection } from "../../src/protocols/vpp-api/connection.ts";
import {
  ANY_INDEX,
  addBridgeDomain,
  addPolicer,
  createVhostUser,
  deleteVhostUser,
} from "../../src/protocols/vpp-api/messages.ts";
import { addNeighbor, deleteLoopback, dumpNeighbors } from "../../src/protocols/vpp-api/routing-messages.ts";
import { type SwitchUnderTest, soon } from "../contract/switch-under-test.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { vhostUserValues } from "../stand-in/vpp/vhost-user-values.ts";
import type { VppProcess } from "./vpp-process.ts";

/** A VPP as the contract suite wants it, plus what only VPP tests look at. */
export interface VppRig extends SwitchUnderTest {
  readonly run: LabRun;
  readonly apiSocket: string;
  /** Whether this VPP offers it, by its messages and its release. */
  offers(offer: Offer): Promise<boolean>;
  /** Forgets what the stand-in has noted against its clients; a real VPP notes nothing. */
  forgive(): void;
  /** What is configured, with a connection that is closed afterwards. */
  withVpp<Value>(look: (connection: VppConnection, view: View) => Promise<Value>): Promise<Value>;
}

/** Loopbacks with gateways, and those that a test made itself. */
const loopbacksOf = ({ interfaces }: View) =>
  [...interfaces.values()].filter(({ interface_name }) => interface_name.startsWith("loop"));

/** Removes neighbours that were made on request; before 26.02 they outlive their interface and crash VPP later. */
async function removeNeighbors(connection: VppConnection, sw_if_index: number): Promise<void> {
  const found = await Promise.all(
    [0, 1].map((af) => connection.dump(dumpNeighbors, { sw_if_index, af }, soon())),
  );
  await Promise.all(
    found
      .flat()
      .filter(({ neighbor }) => (neighbor.flags & STATIC) !== 0)
      .map(({ neighbor }) => connection.request(addNeighbor, { is_add: false, neighbor }, soon())),
  );
}

/** One bridge domain known by its tag, one by its number. */
const BRIDGES = ["blue", "20"] as const;

/** Starts a VPP with two bridge domains. */
export async function startVppRig(
  startVpp: (run: LabRun, directory: string) => Promise<VppProcess>,
): Promise<VppRig> {
  const run = await openLabRun();
  try {
    const vpp = await startVpp(run, join(run.directory, "vpp"));
    const socketDirectory = join(run.directory, "sockets");
    await mkdir(socketDirectory);
    const rig = rigOf(run, vpp, socketDirectory);
    await rig.reset();
    return rig;
  } catch (error) {
    await run.close(error);
    throw error;
  }
}

function rigOf(run: LabRun, vpp: VppProcess, socketDirectory: string): VppRig {
  let down = false;
  // What the daemon's records hold: written before a port is asked for.
  const owners: { readonly port: string; readonly owner: PortOwner }[] = [];

  const withVpp: VppRig["withVpp"] = async (look) => {
    const connection = await connectVpp({ path: vpp.apiSocket }, soon());
    try {
      return await look(connection, await readView(new VppRequests(connection, soon())));
    } finally {
      connection.close();
    }
  };
  const makeBridges = () =>
    withVpp(async (connection, view) => {
      const there = view.bridges.map(bridgeName);
      for (const name of BRIDGES) {
        if (!there.includes(name)) await createBridge(new VppRequests(connection, soon()), view, name);
      }
    });
  const start = async () => {
    await vpp.start();
    down = false;
    await makeBridges();
  };
  const kill = async () => {
    down = true;
    await vpp.kill();
  };
  return {
    run,
    apiSocket: vpp.apiSocket,
    withVpp,
    offers: (offer) =>
      withVpp(async (connection) => {
        return (await whyNotOffered(new VppRequests(connection, soon()), offer)) === undefined;
      }),
    forgive: () => {
      vpp.violations.length = 0;
    },
    bridges: BRIDGES,
    socketDirectory,
    lacks: ["transmitRetries", "receiveQueueCores", "externalIds", "security"],
    lacksVlanModes: ["native-tagged"],
    forgets: true,
    open(node = "node-a") {
      const ownersOf = (port: string) => owners.filter((one) => one.port === port).map(({ owner }) => owner);
      const dataplane = openVppDataplane({ apiSocket: vpp.apiSocket, node, ownersOf, logger: silentLogger });
      return {
        ...dataplane,
        ensurePort(request, signal) {
          owners.push({ port: request.name, owner: request.owner });
          return dataplane.ensurePort(request, signal);
        },
      };
    },
    makeForeignPort: (name, socketPath) =>
      withVpp(async (connection) => {
        const values = vhostUserValues(socketPath, name);
        await connection.request(createVhostUser, values, soon());
      }),
    portNames: () => withVpp(async (_, view) => view.ports.map(({ name }) => name).sort()),
    belongings: () =>
      withVpp(async (connection, view) => {
        const neighbors = await Promise.all(
          [0, 1].map((af) => connection.dump(dumpNeighbors, { sw_if_index: ANY_INDEX, af }, soon())),
        );
        return [
          ...view.policers.map(({ details }) => details.name),
          ...loopbacksOf(view).map(({ interface_name }) => interface_name),
          ...[...view.unnumbered].map(([index, of]) => `${index} uses ${of}`),
          ...neighbors.flat().map(({ neighbor }) => `neighbour of ${neighbor.sw_if_index}`),
        ].sort();
      }),
    removeBehindOurBack: (port) =>
      withVpp(async (connection, view) => {
        const { index } = view.ports.find(({ name }) => name === port) ?? {};
        if (index === undefined) return;
        await removeNeighbors(connection, index);
        await connection.request(deleteVhostUser, { sw_if_index: index }, soon());
      }),
    async reset() {
      if (down) await start();
      if (vpp.violations.length > 0) throw new Error(vpp.violations.join("; "));
      owners.length = 0;
      await withVpp(async (connection, view) => {
        await removeNeighbors(connection, ANY_INDEX);
        await Promise.all([
          ...view.ports.map(({ index }) =>
            connection.request(deleteVhostUser, { sw_if_index: index }, soon()),
          ),
          ...view.policers.map(({ details }) =>
            connection.request(addPolicer, { ...details, is_add: false }, soon()),
          ),
          ...loopbacksOf(view).map(({ sw_if_index }) =>
            connection.request(deleteLoopback, { sw_if_index }, soon()),
          ),
          ...view.bridges
            .filter((bridge) => !BRIDGES.some((name) => name === bridgeName(bridge)))
            .map((bridge) => connection.request(addBridgeDomain, { ...bridge, is_add: false }, soon())),
        ]);
      });
      await makeBridges();
    },
    killSwitch: kill,
    startSwitch: start,
    killControl: kill,
    startControl: start,
    close: () => run.close(),
  };
}
