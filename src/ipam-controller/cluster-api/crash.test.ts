import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ApiRig, startApiRig } from "../../../test/stand-in/api-server/api-rig.ts";
import type { Json } from "../../../test/stand-in/api-server/object-store.ts";
import { ApiFailure } from "../../kube-api/api-failure.ts";
import type { KubeApi, KubeObject, Resource } from "../../kube-api/client.ts";
import { IpamController } from "../controller.ts";

let rig: ApiRig;
const running: AbortController[] = [];

beforeEach(async () => {
  rig = await startApiRig();
  const { server } = rig;
  server.groups.set("ipam.cluster.x-k8s.io", ["v1beta2"]);
  for (const plural of ["ipaddressclaims", "namespacedaddresspools"]) server.store.withStatus.add(plural);
  const spec = { subnets: [{ cidr: "10.0.0.0/24" }], cooldownSeconds: 0 };
  server.store.create("tenant/namespacedaddresspools", {
    metadata: { name: "p", namespace: "tenant" },
    spec,
  });
});
afterEach(async () => {
  for (const one of running.splice(0)) one.abort();
  await rig.close();
});

type Api = Pick<KubeApi, "get" | "list" | "openWatch" | "create" | "update" | "delete" | "servedVersions">;
const WRITTEN = ["ipaddressclaims", "ipaddresses", "addressallocations"];

/** A controller that is killed right after so many writes for claims, before it has their answer; `died` says that it was. */
function start(writes = Number.POSITIVE_INFINITY): { readonly died: () => boolean } {
  const { client, clock, logger } = rig;
  let left = writes;
  let isDead = false;
  const stop = new AbortController();
  running.push(stop);
  const dead = () => new ApiFailure("unreachable", "the controller was killed", "the test");
  const write = async <Value>(resource: Resource, work: () => Promise<Value>): Promise<Value> => {
    if (isDead) throw dead();
    if (!WRITTEN.includes(resource.plural)) return work();
    left -= 1;
    if (left > 0) return work();
    isDead = true;
    await work().catch(() => undefined);
    stop.abort();
    throw dead();
  };
  const api: Api = {
    get: (...call) => client.get(...call),
    list: (...call) => client.list(...call),
    openWatch: (...call) => client.openWatch(...call),
    servedVersions: (...call) => client.servedVersions(...call),
    create: (resource, ...call) => write(resource, () => client.create(resource, ...call)),
    update: (resource: Resource, object: KubeObject, signal) =>
      write(resource, () => client.update(resource, object, signal)),
    delete: (resource, ...call) => write(resource, () => client.delete(resource, ...call)),
  };
  new IpamController({ api, clock, logger, clusterApi: api }).run(stop.signal).catch(() => undefined);
  return { died: () => isDead };
}

const all = (collection: string) => rig.server.store.all(collection);
const claim = () => rig.server.store.find("tenant/ipaddressclaims", "c");
const isReady = () =>
  ((claim()?.["status"] ?? {}) as { readonly conditions?: readonly Json[] }).conditions?.some(
    ({ type, status }) => type === "Ready" && status === "True",
  ) === true;
const addClaim = () =>
  rig.server.store.create("tenant/ipaddressclaims", {
    metadata: { name: "c", namespace: "tenant" },
    spec: { poolRef: { apiGroup: "ipam.kube-vhostuser.io", kind: "NamespacedAddressPool", name: "p" } },
  });

describe("a controller that is killed after each of its writes", () => {
  // Finalizer, perhaps a condition while there is no block, allocation, IPAddress, status.
  it.each([1, 2, 3, 4, 5])(
    "for a new claim (%i): the next one gives the claim one address",
    async (writes) => {
      addClaim();
      const first = start(writes);
      await rig.until(() => first.died() || isReady(), 500);
      start();
      await rig.until(isReady, 500);
      const [allocation, ...others] = all("addressallocations");
      expect(others).toEqual([]);
      const { address } = (allocation?.["spec"] ?? {}) as Json;
      expect(all("ipaddresses").map(({ spec }) => (spec as Json)["address"])).toEqual([address]);
    },
  );

  // Finalizer of the IPAddress, its deletion, the allocation, the claim's finalizer.
  it.each([1, 2, 3, 4])("for a deleted claim (%i): the next one releases its address", async (writes) => {
    addClaim();
    start();
    await rig.until(isReady, 500);
    for (const one of running.splice(0)) one.abort();
    rig.server.store.remove("tenant/ipaddressclaims", "c", {});
    const first = start(writes);
    await rig.until(() => first.died() || claim() === undefined, 500);
    start();
    await rig.until(() => claim() === undefined && all("addressallocations").length === 0, 500);
    expect(all("ipaddresses")).toEqual([]);
  });
});
