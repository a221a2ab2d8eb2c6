// What a provider of addresses must do for Cluster API: the cases that its reference provider tests, and what our design adds.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type AddressAllocation,
  parseAddressAllocation,
} from "../../src/address-objects/address-allocation.ts";
import {
  ADDRESS_ALLOCATIONS,
  ADDRESS_POOLS,
  IPAM_API_VERSION,
  IPAM_GROUP,
  NAMESPACED_POOLS,
} from "../../src/address-objects/resources.ts";
import { IpamController } from "../../src/ipam-controller/controller.ts";
import { ApiFailure } from "../../src/kube-api/api-failure.ts";
import type { KubeApi, KubeObject, Resource } from "../../src/kube-api/client.ts";
import { createLogger } from "../../src/logging/logger.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { ManualClock } from "../stand-in/manual-clock.ts";

/** An API server with the definitions of IPAM and of Cluster API. */
export interface ClusterApiUnderTest {
  /** May do everything. */
  readonly admin: KubeApi;
  /** Has the rights of the controller. */
  readonly controller: KubeApi;
  readonly version: "v1beta1" | "v1beta2";
  readonly addNamespace: (name: string) => Promise<unknown>;
  readonly close: () => Promise<void>;
}

const GROUP = "ipam.cluster.x-k8s.io";
const CLUSTER_GROUP = "cluster.x-k8s.io";
const PAUSED = `${CLUSTER_GROUP}/paused`;
const CLUSTER_LABEL = `${CLUSTER_GROUP}/cluster-name`;
const RELEASE = `${IPAM_GROUP}/release-address`;
const PROTECT = `${IPAM_GROUP}/protect-address`;
const STEP_MS = 500;
/** After it everything that can be done was looked at twice. */
const RESYNC_MS = 31_000;

type PoolKind = "AddressPool" | "NamespacedAddressPool";
type Json = Readonly<Record<string, unknown>>;

interface Ready {
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
}

/** Runs the cases on an API server; they share it, and each has namespaces and pools of its own. */
export function describeClusterApi(name: string, start: () => Promise<ClusterApiUnderTest>): void {
  describe(`the IPAM provider on ${name}`, () => {
    let under: ClusterApiUnderTest;
    const clock = new ManualClock(Date.UTC(2026, 0, 1));
    const stop = new AbortController();
    const { signal } = stop;
    let sentinels = 0;
    let names = 0;
    beforeAll(async () => {
      under = await start();
      run();
      await namespaceOf("sentinel");
      await create(NAMESPACED_POOLS, pool("NamespacedAddressPool", "sentinels", "10.99.0.0/24"), "sentinel");
    });
    afterAll(async () => {
      stop.abort();
      await under?.close();
    });

    /** A controller beside those that run. */
    function run(): void {
      const logger = createLogger({ level: "fatal", program: "ipam-controller" });
      const api = under.controller;
      new IpamController({ api, clock, logger, clusterApi: api }).run(signal).catch((error: unknown) => {
        if (!signal.aborted) throw error;
      });
    }

    const claims = (): Resource => ({ group: GROUP, version: under.version, plural: "ipaddressclaims" });
    const addresses = (): Resource => ({ group: GROUP, version: under.version, plural: "ipaddresses" });
    const clusters = (): Resource => ({ group: CLUSTER_GROUP, version: under.version, plural: "clusters" });
    const fresh = (what: string) => {
      names += 1;
      return `${what}${names}`;
    };
    const namespaceOf = async (what = fresh("ns")) => {
      await under.addNamespace(what);
      return what;
    };
    const within = (resource: Resource, namespace: string | undefined): Resource =>
      namespace === undefined ? resource : { ...resource, namespace };
    const create = (resource: Resource, object: KubeObject, namespace?: string) =>
      under.admin.create(
        within(resource, namespace),
        namespace === undefined ? object : { ...object, metadata: { ...object.metadata, namespace } },
        signal,
      );
    const find = async (resource: Resource, object: string, namespace?: string) => {
      try {
        return await under.admin.get(within(resource, namespace), object, signal);
      } catch (error) {
        if (error instanceof ApiFailure && error.problem === "not-found") return undefined;
        throw error;
      }
    };
    const remove = (resource: Resource, object: string, namespace?: string) =>
      under.admin.delete(within(resource, namespace), object, {}, signal);
    const patch = (resource: Resource, object: string, namespace: string | undefined, body: object) =>
      under.admin.patch(within(resource, namespace), object, { type: "merge", body }, signal);
    const annotate = (resource: Resource, object: string, namespace: string | undefined, isOn: boolean) =>
      patch(resource, object, namespace, { metadata: { annotations: { [PAUSED]: isOn ? "" : null } } });

    const pool = (
      kind: PoolKind,
      poolName: string,
      cidr: string,
      more: Json = {},
      spec: Json = {},
    ): KubeObject => ({
      ...{ apiVersion: IPAM_API_VERSION, kind, metadata: { name: poolName } },
      spec: { subnets: [{ cidr, ...more }], ...spec },
    });
    const addPool = (namespace: string, poolName: string, cidr: string, more: Json = {}, spec: Json = {}) =>
      create(NAMESPACED_POOLS, pool("NamespacedAddressPool", poolName, cidr, more, spec), namespace);
    const poolRef = (
      poolName: string,
      kind: string = "NamespacedAddressPool",
      apiGroup: string = IPAM_GROUP,
    ) => ({
      ...{ apiGroup, kind, name: poolName },
    });
    const claim = (
      namespace: string,
      claimName: string,
      ref: object,
      { clusterName, ...metadata }: Json & { readonly clusterName?: string } = {},
    ) =>
      create(
        claims(),
        {
          ...{ apiVersion: `${GROUP}/${under.version}`, kind: "IPAddressClaim" },
          metadata: { name: claimName, ...metadata },
          spec: { poolRef: ref, ...(clusterName === undefined ? {} : { clusterName }) },
        },
        namespace,
      );
    const addCluster = (namespace: string, cluster: string) =>
      create(
        clusters(),
        {
          ...{ apiVersion: `${CLUSTER_GROUP}/${under.version}`, kind: "Cluster" },
          metadata: { name: cluster },
          // A spec without a key is refused.
          spec: { paused: false },
        },
        namespace,
      );

    const until = async (what: string, check: () => Promise<unknown>, stepMs = STEP_MS) => {
      let last: unknown;
      const isDone = async () => {
        try {
          await check();
          return true;
        } catch (error) {
          last = error;
          await clock.advance(stepMs);
          return false;
        }
      };
      await waitUntil(isDone, { what, everyMs: 5, detail: () => String(last) });
    };
    const statusOf = (object: KubeObject | undefined) =>
      (object?.["status"] ?? {}) as {
        readonly addressRef?: { readonly name: string };
        readonly conditions?: readonly (Ready & { readonly type: string })[];
      };
    const readyOf = async (namespace: string, claimName: string) =>
      statusOf(await find(claims(), claimName, namespace)).conditions?.find(({ type }) => type === "Ready");
    const specOf = async (namespace: string, addressName: string) =>
      (await find(addresses(), addressName, namespace))?.["spec"] as
        | { readonly address: string; readonly prefix: number; readonly gateway?: string }
        | undefined;
    /** The address of a claim, once it has one. */
    const addressOf = async (namespace: string, claimName: string, stepMs = STEP_MS): Promise<string> => {
      let address = "";
      await until(
        `claim ${claimName} has its address`,
        async () => {
          const object = await find(claims(), claimName, namespace);
          expect(statusOf(object).addressRef).toEqual({ name: claimName });
          expect((await readyOf(namespace, claimName))?.status).toBe("True");
          address = (await specOf(namespace, claimName))?.address ?? "";
          expect(address).not.toBe("");
        },
        stepMs,
      );
      return address;
    };
    const gone = (resource: Resource, object: string, namespace: string) =>
      until(`${object} is gone`, async () => expect(await find(resource, object, namespace)).toBeUndefined());
    const isWaiting = (namespace: string, claimName: string, reason: string) =>
      until(`claim ${claimName} says ${reason}`, async () =>
        expect(await readyOf(namespace, claimName)).toMatchObject({ status: "False", reason }),
      );
    /** All that can be done now has been done: a claim that came later has its address, and all were looked at since. */
    const settle = async () => {
      for (const _ of [1, 2]) {
        sentinels += 1;
        await clock.advance(RESYNC_MS);
        await claim("sentinel", `s${sentinels}`, poolRef("sentinels"));
        await addressOf("sentinel", `s${sentinels}`);
      }
    };
    const allocations = async (of: (one: AddressAllocation) => boolean) => {
      const { objects } = await under.admin.list(ADDRESS_ALLOCATIONS, {}, signal);
      return objects.map(parseAddressAllocation).filter(of);
    };
    const held = (namespace: string) => allocations(({ owner }) => owner?.namespace === namespace);

    describe("for a new claim", () => {
      it("ignores pools of other kinds and groups, whatever their names", async () => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "10.0.0.0/24");
        await claim(ns, "other-kind", poolRef("p", "InClusterIPPool", GROUP));
        await claim(ns, "other-group", poolRef("p", "AddressPool", GROUP));
        await claim(ns, "unknown-kind", poolRef("p", "OtherPool"));
        await settle();
        for (const one of ["other-kind", "other-group", "unknown-kind"]) {
          const object = await find(claims(), one, ns);
          expect([object?.metadata["finalizers"], object?.["status"]]).toEqual([undefined, undefined]);
        }
        expect(await held(ns)).toEqual([]);
      });

      it("makes an IPAddress with owners, finalizer, label, prefix and gateway, and says so in its status", async () => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "10.0.0.0/24", { gateway: "10.0.0.1" });
        await addCluster(ns, "c");
        await claim(ns, "m-0", poolRef("p"), { clusterName: "c", labels: { [CLUSTER_LABEL]: "c" } });
        const address = await addressOf(ns, "m-0");
        const made = await find(addresses(), "m-0", ns);
        const { uid } = (await find(claims(), "m-0", ns))?.metadata ?? {};
        const owner = { name: "m-0", uid, controller: true, blockOwnerDeletion: true };
        const { uid: poolUid } = (await find(NAMESPACED_POOLS, "p", ns))?.metadata ?? {};
        const of = { kind: "NamespacedAddressPool", name: "p", uid: poolUid };
        expect(made?.metadata).toMatchObject({
          finalizers: [PROTECT],
          labels: { [CLUSTER_LABEL]: "c" },
          ownerReferences: [
            { apiVersion: `${GROUP}/${under.version}`, kind: "IPAddressClaim", ...owner },
            { apiVersion: IPAM_API_VERSION, ...of, controller: false, blockOwnerDeletion: true },
          ],
        });
        const expected = {
          claimRef: { name: "m-0" },
          poolRef: poolRef("p"),
          prefix: 24,
          gateway: "10.0.0.1",
        };
        expect(made?.["spec"]).toEqual({ ...expected, address });
        expect((await find(claims(), "m-0", ns))?.metadata["finalizers"]).toEqual([RELEASE]);
        expect(await held(ns)).toMatchObject([
          { space: `ns-${ns}`, pool: `${ns}.p`, owner: { kind: "IPAddressClaim", name: "m-0", uid } },
        ]);
      });

      it.each([
        ["NamespacedAddressPool", "10.7.0.0/24"],
        ["AddressPool", "10.7.1.0/24"],
      ] as const)("waits for a missing %s, and completes when it comes", async (kind, cidr) => {
        const ns = await namespaceOf();
        const late = fresh("late");
        await claim(ns, "c", poolRef(late, kind));
        await isWaiting(ns, "c", "PoolNotReady");
        await settle();
        expect(await find(addresses(), "c", ns)).toBeUndefined();
        const resource = kind === "AddressPool" ? ADDRESS_POOLS : NAMESPACED_POOLS;
        await create(resource, pool(kind, late, cidr), kind === "AddressPool" ? undefined : ns);
        await addressOf(ns, "c");
      });

      it.each([
        ["network, broadcast and gateway", "10.0.0.0/29", { gateway: "10.0.0.3" }, [1, 2, 4, 5, 6]],
        ["excluded addresses", "10.0.0.0/29", { exclude: ["10.0.0.2-10.0.0.5"] }, [1, 6]],
        [
          "what is not in ranges, in whatever order they are",
          "10.0.0.0/24",
          { ranges: ["10.0.0.9", "10.0.0.4-10.0.0.5"] },
          [4, 5, 9],
        ],
        ["what is not a single address", "10.0.0.0/24", { ranges: ["10.0.0.50", "10.0.0.60"] }, [50, 60]],
      ])("never hands out %s", async (_, cidr, more, expected) => {
        const ns = await namespaceOf();
        await addPool(ns, "p", cidr, more);
        const all = expected.map((_one, index) => `c${index}`);
        for (const one of all) await claim(ns, one, poolRef("p"));
        const got: string[] = [];
        for (const one of all) got.push(await addressOf(ns, one));
        expect(got.toSorted()).toEqual(expected.map((last) => `10.0.0.${last}`).toSorted());
        await claim(ns, "too-many", poolRef("p"));
        await isWaiting(ns, "too-many", "PoolExhausted");
      });

      it("never hands out the first address of an IPv6 subnet", async () => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "fd00::/126");
        for (const one of ["a", "b", "c"]) await claim(ns, one, poolRef("p"));
        const got = [await addressOf(ns, "a"), await addressOf(ns, "b"), await addressOf(ns, "c")];
        expect(got.toSorted()).toEqual(["fd00::1", "fd00::2", "fd00::3"]);
        expect(await specOf(ns, "a")).toMatchObject({ prefix: 126 });
      });

      it("sets no gateway where the pool has none", async () => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "10.0.0.0/24");
        await claim(ns, "c", poolRef("p"));
        await addressOf(ns, "c");
        expect(Object.keys((await specOf(ns, "c")) ?? {})).not.toContain("gateway");
      });

      it("gives two claims of a name, in two namespaces, different addresses of a cluster's pool", async () => {
        const [one, other, shared] = [await namespaceOf(), await namespaceOf(), fresh("shared")];
        await create(ADDRESS_POOLS, pool("AddressPool", shared, "10.7.2.0/29"));
        for (const ns of [one, other]) await claim(ns, "same", poolRef(shared, "AddressPool"));
        expect(await addressOf(one, "same")).not.toBe(await addressOf(other, "same"));
        const of = { kind: "AddressPool", name: shared, controller: false };
        expect((await find(addresses(), "same", one))?.metadata["ownerReferences"]).toMatchObject([{}, of]);
      });

      it("takes pools of one name in two namespaces, and of the cluster, for three", async () => {
        const [one, other, same] = [await namespaceOf(), await namespaceOf(), fresh("same")];
        await addPool(one, same, "10.7.3.0/30");
        await addPool(other, same, "10.7.3.0/30", {}, { cooldownSeconds: 0 });
        await create(ADDRESS_POOLS, pool("AddressPool", same, "10.7.3.0/30"));
        for (const [ns, kind, claimed] of [
          [one, "NamespacedAddressPool", "a"],
          [one, "NamespacedAddressPool", "b"],
          [other, "NamespacedAddressPool", "a"],
          [other, "NamespacedAddressPool", "b"],
          [one, "AddressPool", "c"],
          [other, "AddressPool", "c"],
        ] as const)
          await claim(ns, claimed, poolRef(same, kind));
        const both = ["10.7.3.1", "10.7.3.2"];
        for (const [[first, a], [second, b]] of [
          [[one, "a"] as const, [one, "b"] as const],
          [[other, "a"] as const, [other, "b"] as const],
          [[one, "c"] as const, [other, "c"] as const],
        ] as const)
          expect([await addressOf(first, a), await addressOf(second, b)].toSorted()).toEqual(both);
      });
    });

    describe("does nothing", () => {
      it("for a claim that is paused, until it goes on", async () => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "10.0.0.0/24");
        await claim(ns, "c", poolRef("p"), { annotations: { [PAUSED]: "true" } });
        await settle();
        expect(await held(ns)).toEqual([]);
        await annotate(claims(), "c", ns, false);
        await addressOf(ns, "c");
      });

      it("for claims of a pool that is paused: neither allocates nor releases, until it goes on", async () => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "10.0.0.0/24", {}, { cooldownSeconds: 0 });
        await claim(ns, "before", poolRef("p"));
        await addressOf(ns, "before");
        await annotate(NAMESPACED_POOLS, "p", ns, true);
        await claim(ns, "c", poolRef("p"));
        await remove(claims(), "before", ns);
        await settle();
        expect(await find(addresses(), "c", ns)).toBeUndefined();
        expect((await find(claims(), "before", ns))?.metadata["deletionTimestamp"]).toBeDefined();
        expect(await find(addresses(), "before", ns)).toBeDefined();
        await annotate(NAMESPACED_POOLS, "p", ns, false);
        await addressOf(ns, "c");
        await gone(claims(), "before", ns);
        await gone(addresses(), "before", ns);
      });

      it.each([
        ["its spec, named by the claim's spec", { paused: true }, {}, false],
        ["an annotation, named by the claim's spec", {}, { [PAUSED]: "" }, false],
        ["its spec, named by the claim's label", { paused: true }, {}, true],
      ])("while the cluster is paused by %s", async (_, spec, annotations, byLabel) => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "10.0.0.0/24", {}, { cooldownSeconds: 0 });
        const of = byLabel ? { labels: { [CLUSTER_LABEL]: "k" } } : { clusterName: "k" };
        await addCluster(ns, "k");
        await claim(ns, "before", poolRef("p"), of);
        await addressOf(ns, "before");
        await patch(clusters(), "k", ns, { metadata: { annotations }, spec });
        await claim(ns, "c", poolRef("p"), of);
        await remove(claims(), "before", ns);
        await settle();
        expect(await find(addresses(), "c", ns)).toBeUndefined();
        expect(await find(addresses(), "before", ns)).toBeDefined();
        await patch(clusters(), "k", ns, {
          metadata: { annotations: { [PAUSED]: null } },
          spec: { paused: false },
        });
        await addressOf(ns, "c");
        await gone(claims(), "before", ns);
      });

      it("for a claim whose cluster is missing, but releases one that is deleted", async () => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "10.0.0.0/24", {}, { cooldownSeconds: 0 });
        await addCluster(ns, "k");
        await claim(ns, "before", poolRef("p"), { clusterName: "k" });
        await addressOf(ns, "before");
        await remove(clusters(), "k", ns);
        await claim(ns, "c", poolRef("p"), { clusterName: "k" });
        await claim(ns, "labelled", poolRef("p"), { labels: { [CLUSTER_LABEL]: "k" } });
        await settle();
        for (const one of ["c", "labelled"]) expect(await find(addresses(), one, ns)).toBeUndefined();
        await remove(claims(), "before", ns);
        await gone(claims(), "before", ns);
        await gone(addresses(), "before", ns);
        expect(await held(ns)).toEqual([]);
        await addCluster(ns, "k");
        await addressOf(ns, "c");
        await addressOf(ns, "labelled");
      });
    });

    describe("when addresses run out", () => {
      it("says so, and serves the claims that wait when one is freed or the pool grows", async () => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "10.0.0.0/24", { ranges: ["10.0.0.7"] }, { cooldownSeconds: 0 });
        await claim(ns, "a", poolRef("p"));
        await addressOf(ns, "a");
        await claim(ns, "b", poolRef("p"));
        await isWaiting(ns, "b", "PoolExhausted");
        await settle();
        expect(await find(addresses(), "b", ns)).toBeUndefined();
        await remove(claims(), "a", ns);
        expect(await addressOf(ns, "b")).toBe("10.0.0.7");
        await claim(ns, "c", poolRef("p"));
        await isWaiting(ns, "c", "PoolExhausted");
        const spec = { subnets: [{ cidr: "10.0.0.0/24", ranges: ["10.0.0.7-10.0.0.8"] }] };
        await patch(NAMESPACED_POOLS, "p", ns, { spec });
        expect(await addressOf(ns, "c")).toBe("10.0.0.8");
        await until("the pool shows its counts", async () =>
          expect((await find(NAMESPACED_POOLS, "p", ns))?.["status"]).toMatchObject({
            ...{ total: 2, used: 2, free: 0 },
            conditions: expect.arrayContaining([
              expect.objectContaining({ type: "Ready", status: "True" }),
              expect.objectContaining({ type: "Exhausted", status: "True" }),
            ]),
          }),
        );
      });
    });

    describe("an IPAddress", () => {
      const addAddress = (ns: string, poolName: string, address: string, metadata: Json = {}, called = "c") =>
        create(
          addresses(),
          {
            ...{ apiVersion: `${GROUP}/${under.version}`, kind: "IPAddress" },
            metadata: { name: called, ...metadata },
            spec: { claimRef: { name: called }, poolRef: poolRef(poolName), address, prefix: 24 },
          },
          ns,
        );

      it("that is there without owners and finalizer is taken over with its address", async () => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "10.0.0.0/24");
        await addAddress(ns, "p", "10.0.0.77");
        await claim(ns, "c", poolRef("p"));
        expect(await addressOf(ns, "c")).toBe("10.0.0.77");
        const { metadata } = (await find(addresses(), "c", ns)) ?? { metadata: {} };
        expect(metadata).toMatchObject({
          finalizers: [PROTECT],
          ownerReferences: [{ kind: "IPAddressClaim" }, { kind: "NamespacedAddressPool" }],
        });
        expect(await held(ns)).toMatchObject([{ name: `ns-${ns}.10-0-0-77` }]);
      });

      it("keeps an owner that is not ours", async () => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "10.0.0.0/24");
        const other = { apiVersion: "example.org/v1", kind: "Other", name: "o", uid: "uid-of-o" };
        await addAddress(ns, "p", "10.0.0.78", {
          ownerReferences: [other],
          finalizers: ["example.org/held"],
        });
        await claim(ns, "c", poolRef("p"));
        await addressOf(ns, "c");
        const { metadata } = (await find(addresses(), "c", ns)) ?? { metadata: {} };
        expect(metadata).toMatchObject({
          finalizers: ["example.org/held", PROTECT],
          ownerReferences: [other, { kind: "IPAddressClaim" }, { kind: "NamespacedAddressPool" }],
        });
      });

      it("that was restored without its claim keeps its address from others", async () => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "10.0.0.0/29", { ranges: ["10.0.0.2-10.0.0.3"] });
        await addAddress(ns, "p", "10.0.0.2", {}, "stale");
        await settle();
        for (const one of ["a", "b"]) await claim(ns, one, poolRef("p"));
        await until("one of them has the other address", async () => expect(await held(ns)).toHaveLength(1));
        await settle();
        expect(await held(ns)).toMatchObject([{ name: `ns-${ns}.10-0-0-3` }]);
        await remove(addresses(), "stale", ns);
        expect([await addressOf(ns, "a"), await addressOf(ns, "b")].toSorted()).toEqual([
          "10.0.0.2",
          "10.0.0.3",
        ]);
      });

      it("is there while its claim is, and comes back as it was when it was removed by force", async () => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "10.0.0.0/24", { gateway: "10.0.0.1" });
        await claim(ns, "c", poolRef("p"));
        await addressOf(ns, "c");
        const before = await find(addresses(), "c", ns);
        await remove(addresses(), "c", ns);
        await settle();
        expect((await find(addresses(), "c", ns))?.metadata.uid).toBe(before?.metadata.uid);
        await patch(addresses(), "c", ns, { metadata: { finalizers: null } });
        await until("it is there once more", async () => {
          const after = await find(addresses(), "c", ns);
          expect(after?.metadata.uid).not.toBe(before?.metadata.uid);
          expect(after?.["spec"]).toEqual(before?.["spec"]);
        });
      });
    });

    describe("when a claim is deleted", () => {
      it("frees its address at once where the pool has no cooldown, after its IPAddress is gone", async () => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "10.0.0.0/24", {}, { cooldownSeconds: 0 });
        await claim(ns, "c", poolRef("p"));
        await addressOf(ns, "c");
        // Another controller needs the IPAddress for a while.
        await patch(addresses(), "c", ns, { metadata: { finalizers: [PROTECT, "example.org/dns"] } });
        await remove(claims(), "c", ns);
        await until("the IPAddress is deleted", async () =>
          expect((await find(addresses(), "c", ns))?.metadata["finalizers"]).toEqual(["example.org/dns"]),
        );
        await settle();
        expect(await held(ns)).toHaveLength(1);
        await patch(addresses(), "c", ns, { metadata: { finalizers: null } });
        await gone(claims(), "c", ns);
        expect(await held(ns)).toEqual([]);
      });

      it("holds the address while an infrastructure provider holds the claim", async () => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "10.0.0.0/24", {}, { cooldownSeconds: 0 });
        const finalizers = ["example.org/ip-claim-protection"];
        await claim(ns, "c", poolRef("p"), { finalizers });
        await addressOf(ns, "c");
        await remove(claims(), "c", ns);
        await settle();
        expect(await find(addresses(), "c", ns)).toBeDefined();
        await patch(claims(), "c", ns, { metadata: { finalizers: [RELEASE] } });
        await gone(claims(), "c", ns);
        expect(await held(ns)).toEqual([]);
      });

      it("lets the address rest for the cooldown, while claim and IPAddress are gone", async () => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "10.0.0.0/24", { ranges: ["10.0.0.9"] }, { cooldownSeconds: 300 });
        await claim(ns, "a", poolRef("p"));
        await addressOf(ns, "a");
        await remove(claims(), "a", ns);
        await gone(claims(), "a", ns);
        expect(await find(addresses(), "a", ns)).toBeUndefined();
        await claim(ns, "b", poolRef("p"));
        await isWaiting(ns, "b", "PoolExhausted");
        await settle();
        expect(await find(addresses(), "b", ns)).toBeUndefined();
        const from = clock.monotonic();
        expect(await addressOf(ns, "b", 5_000)).toBe("10.0.0.9");
        expect(clock.monotonic() - from).toBeGreaterThan(100_000);
      });

      it("releases it although the pool was deleted first, without a cooldown, and its AddressPool waits for that", async () => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "10.0.0.0/24", {}, { cooldownSeconds: 3_600 });
        await claim(ns, "c", poolRef("p"));
        await addressOf(ns, "c");
        await remove(NAMESPACED_POOLS, "p", ns);
        await until("its AddressPool is being deleted", async () =>
          expect((await find(ADDRESS_POOLS, `${ns}.p`))?.metadata).toHaveProperty("deletionTimestamp"),
        );
        await settle();
        expect(await find(ADDRESS_POOLS, `${ns}.p`)).toBeDefined();
        expect(await find(addresses(), "c", ns)).toBeDefined();
        expect(await readyOf(ns, "c")).toMatchObject({ status: "True" });
        await remove(claims(), "c", ns);
        await gone(claims(), "c", ns);
        await gone(addresses(), "c", ns);
        expect(await held(ns)).toEqual([]);
        const isGone = async () => expect(await find(ADDRESS_POOLS, `${ns}.p`)).toBeUndefined();
        await until("its AddressPool is gone", isGone, 5_000);
      });

      it("frees the address of a claim that was removed by force, when its IPAddress is gone too", async () => {
        const ns = await namespaceOf();
        await addPool(ns, "p", "10.0.0.0/24", {}, { cooldownSeconds: 0 });
        await claim(ns, "c", poolRef("p"));
        await addressOf(ns, "c");
        await patch(claims(), "c", ns, { metadata: { finalizers: null } });
        await remove(claims(), "c", ns);
        await gone(claims(), "c", ns);
        await settle();
        await clock.advance(60_000);
        await settle();
        expect(await held(ns)).toHaveLength(1);
        // The garbage collector, or a person.
        await remove(addresses(), "c", ns);
        await gone(addresses(), "c", ns);
        await until("the address is free", async () => expect(await held(ns)).toEqual([]));
      });
    });

    it("leaves an AddressPool alone that only has the name of a namespace's pool", async () => {
      const ns = await namespaceOf();
      await create(ADDRESS_POOLS, pool("AddressPool", `${ns}.p`, "10.7.4.0/24"));
      await addPool(ns, "p", "10.0.0.0/24");
      await claim(ns, "c", poolRef("p"));
      await isWaiting(ns, "c", "PoolNotReady");
      await until("the pool says why", async () =>
        expect((await find(NAMESPACED_POOLS, "p", ns))?.["status"]).toMatchObject({
          conditions: [{ type: "Ready", status: "False", reason: "NameTaken" }],
        }),
      );
      await remove(ADDRESS_POOLS, `${ns}.p`);
      // Its empty blocks are given back first.
      await addressOf(ns, "c", 5_000);
    });

    it("gives each claim one address, with two controllers that both lead", async () => {
      run();
      const ns = await namespaceOf();
      await addPool(ns, "p", "10.0.0.0/28", {}, { cooldownSeconds: 0 });
      const all = Array.from({ length: 12 }, (_, index) => `c${index}`);
      await Promise.all(all.map((one) => claim(ns, one, poolRef("p"))));
      const got: string[] = [];
      for (const one of all) got.push(await addressOf(ns, one));
      expect(new Set(got).size).toBe(12);
      await settle();
      expect(await held(ns)).toHaveLength(12);
      await Promise.all(all.map((one) => remove(claims(), one, ns)));
      for (const one of all) await gone(claims(), one, ns);
      await until("all addresses are free", async () => expect(await held(ns)).toEqual([]));
    });
  });
}
