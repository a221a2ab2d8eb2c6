import { IPAM_API_VERSION } from "../../src/address-objects/resources.ts";
import { type ClaimsMode, NodeAgent } from "../cluster/bundled-ipam.ts";
import type { LabRun } from "../machine/lab-run.ts";
import type { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import { IPAM_EXECUTABLE, IpamCalls, type IpamPlugin } from "./ipam-calls.ts";

/** Has an API server in the bench's own process, with the space `default`. */
export function createSpace({ store }: FakeApiServer, ipv4: number): void {
  store.create("addressspaces", {
    ...{ apiVersion: IPAM_API_VERSION, metadata: { name: "default" } },
    spec: { blockPrefixes: { ipv4, ipv6: 122 } },
  });
}

/** Creates a pool of one subnet in the space `default`. */
export function createPool(
  { store }: FakeApiServer,
  name: string,
  cidr: string,
  spec: Readonly<Record<string, unknown>> = {},
): void {
  store.create("addresspools", {
    ...{ apiVersion: IPAM_API_VERSION, metadata: { name } },
    spec: { space: "default", subnets: [{ cidr }], mode: "NodeBlocks", cooldownSeconds: 60, ...spec },
  });
}

/** A node in the API server, and its agent, which is not started yet. */
export function addNode(
  run: LabRun,
  api: FakeApiServer,
  name: string,
  claims: ClaimsMode = "off",
): NodeAgent {
  api.store.create("nodes", { metadata: { name } });
  return new NodeAgent(run, api, name, claims);
}

/** ADD and DEL of a network that takes its addresses from a pool. @param config beside the usual */
export function callsOf(
  { socket }: NodeAgent,
  pool: string,
  netns: string,
  config?: IpamPlugin["config"],
): IpamCalls {
  return new IpamCalls(
    {
      command: IPAM_EXECUTABLE,
      env: { KUBE_VHOSTUSER_IPAM_SOCKET: socket },
      ipam: { type: "kube-vhostuser-ipam", pools: [pool] },
      ...(config && { config }),
    },
    netns,
  );
}
