import { newAllocation } from "../../../src/address-objects/address-allocation.ts";
import { newBlock } from "../../../src/address-objects/address-block.ts";
import { formatAddress } from "../../../src/addresses/address.ts";
import { blockAt } from "../../../src/addresses/grid.ts";
import { IPAM_CLAIMS } from "../../../src/claims/resources.ts";
import { startController } from "../../cluster/bundled-ipam.ts";
import { addNetworkNamespace } from "../../lab/network-namespace.ts";
import type { Child } from "../../machine/child.ts";
import type { LabRun } from "../../machine/lab-run.ts";
import { waitUntil } from "../../machine/wait-until.ts";
import { FakeApiServer } from "../../stand-in/api-server/fake-api-server.ts";
import type { StoreEvent } from "../../stand-in/api-server/object-store.ts";
import { ClaimCluster } from "../../stand-in/ipam/claim-cluster.ts";
import { addNode, callsOf, createPool, createSpace } from "../bench-agent.ts";
import type { BenchRun } from "../bench-suite.ts";
import type { IpamCalls } from "../ipam-calls.ts";
import { atMost, type Measurement, type SuiteDefinition } from "../measurement.ts";
import { timeWork } from "../timed-program.ts";

/** Claims that are made one after another. */
const ALONE = 300;
/** Claims that have their addresses when the controller starts. */
const EXISTING = 10_000;
/** Claims that are made in the same moment. */
const BURST = 1000;
const NAMESPACE = "default";
const NETWORK = "bench";
const BLOCK = 16;
const PREFIXES = { ipv4: 28, ipv6: 122 };
/** 10.1.0.0, from where on the claims that exist have their addresses. */
const FIRST = (10n << 24n) + (1n << 16n);
const LIMIT_MS = 600_000;

/** What the measurements share. */
interface ClaimsRig {
  readonly isTrial: boolean;
  /** A cluster without a claim at the start. */
  readonly small: ClaimsBench;
  /** One with 10,000 claims, which have their addresses. */
  readonly large: ClaimsBench;
  readonly calls: IpamCalls;
}

/** A small cluster and a large one, each with a controller; in the small one is a node with an agent, too. */
export async function openClaimsRig({ run, isTrial = false }: BenchRun): Promise<ClaimsRig> {
  const [small, large] = [await ClaimsBench.open(run, "small"), await ClaimsBench.open(run, "large")];
  large.fill(isTrial ? BLOCK : EXISTING);
  const { path: netns } = await addNetworkNamespace(run, "claims");
  const agent = addNode(run, small.api, "claims-node", "referenced");
  await agent.start();
  const calls = callsOf(agent, "blue", netns, { allowPersistentIPs: true });
  await calls.untilReady();
  for (const cluster of [small, large]) {
    await cluster.start();
    await cluster.untilBlocksAreMade();
  }
  return { isTrial, small, large, calls };
}

const WRITES = `API writes for a claim, ${ALONE} one after another`;
const ALL_WRITES = `${WRITES}, with shared blocks and the pool's status`;

/** IPAMClaims, by the bundled controller and agent. */
export const claimsSuite: SuiteDefinition<ClaimsRig> = {
  name: "claims",
  peer: null,
  measurements: [
    {
      ...{ name: "claim made until its address is published", unit: "ms", repetitions: ALONE, warmUp: 10 },
      ...{ aim: atMost(250, "<= 250 ms"), aimP99: atMost(250, "<= 250 ms") },
      ours: ({ small }) => timeWork(() => small.publish(1)),
    },
    figure(WRITES, "writes", 2, async ({ small, isTrial }) => {
      const count = isTrial ? 1 : ALONE;
      return (await writesFor(small, count, ["ipamclaims", "addressallocations"])) / count;
    }),
    figure(ALL_WRITES, "writes", undefined, async ({ small, isTrial }) => {
      const count = isTrial ? 1 : ALONE;
      const all = ["ipamclaims", "addressallocations", "addressblocks", "addresspools"];
      return (await writesFor(small, count, all)) / count;
    }),
    figure("API writes of an ADD, its claim is published", "writes", 1, async ({ small, calls }) => {
      const [claim = ""] = await small.publish(1);
      return small.writesOf(["ipamclaims", "addressallocations", "addressblocks"], () =>
        small.add(calls, claim),
      );
    }),
    figure("API writes of an ADD that publishes its claim itself", "writes", 2, async ({ small, calls }) => {
      await small.stop();
      const [claim = ""] = small.make(1);
      const writes = await small.writesOf(["ipamclaims", "addressallocations", "addressblocks"], () =>
        small.add(calls, claim),
      );
      await small.start();
      await small.publish(1);
      return writes;
    }),
    figure(`burst of ${BURST} claims until all are published`, "ms", undefined, ({ small, isTrial }) =>
      timeWork(() => small.publish(isTrial ? BLOCK : BURST)),
    ),
    figure(
      `controller's start with ${EXISTING} claims until it has published a new one`,
      "ms",
      10_000,
      async ({ large }) => {
        await large.stop();
        const made = large.make(1);
        return timeWork(async () => {
          await large.start();
          await large.untilPublished(made);
        });
      },
    ),
    figure(
      `burst of ${BURST} claims beside ${EXISTING} until all are published`,
      "ms",
      undefined,
      ({ large, isTrial }) => timeWork(() => large.publish(isTrial ? BLOCK : BURST)),
    ),
  ],
};

/** Something that is done once. @param limit aim in the unit */
function figure(
  name: string,
  unit: "ms" | "writes",
  limit: number | undefined,
  ours: Measurement<ClaimsRig>["ours"],
): Measurement<ClaimsRig> {
  const text = unit === "ms" ? `<= ${(limit ?? 0) / 1000} s` : `<= ${limit}`;
  return {
    ...{ name, unit, ours, repetitions: 1, shows: "median" },
    ...(limit !== undefined && { aim: atMost(limit, text) }),
  };
}

/** Publishes claims one after another. @returns how much was written of these resources, without the claims themselves */
function writesFor(cluster: ClaimsBench, count: number, plurals: readonly string[]): Promise<number> {
  return cluster.writesOf(plurals, async () => {
    for (let index = 0; index < count; index++) await cluster.publish(1);
  });
}

/** An API server with a network that allows claims, and the bundled controller. */
class ClaimsBench {
  readonly api: FakeApiServer;
  readonly #run: LabRun;
  readonly #name: string;
  readonly #claims: ClaimCluster;
  #controller: Child | undefined;
  #lives = 0;
  #made = 0;

  private constructor(run: LabRun, api: FakeApiServer, name: string) {
    this.api = api;
    this.#run = run;
    this.#name = name;
    this.#claims = new ClaimCluster(api);
  }

  static async open(run: LabRun, name: string): Promise<ClaimsBench> {
    const api = await FakeApiServer.start();
    // Agents ask whether claims are served.
    api.groups.set(IPAM_CLAIMS.group, [IPAM_CLAIMS.version]);
    run.cleanup.defer(`stop the API server of the ${name} cluster`, () => api.close());
    const bench = new ClaimsBench(run, api, name);
    createSpace(api, PREFIXES.ipv4);
    createPool(api, "blue", "10.0.0.0/8");
    bench.#claims.network(NETWORK, ["blue"], { name: NETWORK }, NAMESPACE);
    return bench;
  }

  /** Claims with their addresses, in shared blocks that are full then. */
  fill(count: number): void {
    const { store } = this.api;
    for (let index = 0; index < count; index++) {
      const address = { family: "ipv4", value: FIRST + BigInt(index) } as const;
      if (index % BLOCK === 0) {
        const prefix = blockAt(address.value / BigInt(BLOCK), "ipv4", PREFIXES);
        const owner = { kind: "Shared" } as const;
        store.create(
          "addressblocks",
          newBlock({ space: "default", prefix, owner, state: "Bound", pool: "blue" }),
        );
      }
      const [name = ""] = this.make(1);
      const { uid } = store.get(`${NAMESPACE}/ipamclaims`, name).metadata;
      const owner = { kind: "IPAMClaim", namespace: NAMESPACE, name, uid, network: NETWORK };
      const allocation = { space: "default", pool: "blue", address, node: undefined, owner, key: undefined };
      store.create("addressallocations", newAllocation(allocation));
      this.#claims.publish(name, [`${formatAddress(address)}/8`], NAMESPACE);
    }
  }

  async start(): Promise<void> {
    this.#lives += 1;
    const name = `claims-${this.#name}-${this.#lives}`;
    this.#controller = await startController(this.#run, this.api, name, ["--claims"]);
  }

  async stop(): Promise<void> {
    await this.#controller?.stop();
  }

  /** Waits until there are shared blocks with free addresses. */
  async untilBlocksAreMade(): Promise<void> {
    const ahead = () =>
      BLOCK * this.api.store.all("addressblocks").length - this.api.store.all("addressallocations").length;
    await this.#until("shared blocks are made", () => ahead() >= BLOCK * BLOCK, 100);
  }

  /** Makes claims. @returns their names */
  make(count: number): readonly string[] {
    return Array.from({ length: count }, () => {
      this.#made += 1;
      return this.#claims.claim(`vm-${this.#made}.net`, NETWORK, { namespace: NAMESPACE }).metadata.name;
    });
  }

  /** Makes claims and waits until all of them have their addresses. @returns their names */
  async publish(count: number): Promise<readonly string[]> {
    const made = this.make(count);
    await this.untilPublished(made);
    return made;
  }

  async untilPublished(names: readonly string[]): Promise<void> {
    const waiting = new Set(names);
    await this.#until(
      "claims are published",
      () => {
        for (const name of waiting) {
          if (this.#claims.status(name, NAMESPACE).ips.length === 0) return false;
          waiting.delete(name);
        }
        return true;
      },
      1,
    );
  }

  /** ADD of a new pod whose interface refers to a claim. */
  async add(calls: IpamCalls, claim: string): Promise<void> {
    const sandbox = calls.sandbox();
    const elements = [{ name: NETWORK, interface: "net1", "ipam-claim-reference": claim }];
    const annotations = {
      // Makes the uid that of the sandbox, which is its pod's name.
      "kubernetes.io/config.hash": sandbox.pod,
      "k8s.v1.cni.cncf.io/networks": JSON.stringify(elements),
    };
    this.api.store.create(`${NAMESPACE}/pods`, {
      metadata: { name: sandbox.pod, namespace: NAMESPACE, annotations },
      spec: { nodeName: "claims-node" },
    });
    await calls.add(sandbox);
  }

  /** @returns writes of these resources while some work is done, and all that were refused; without the making of claims */
  async writesOf(plurals: readonly string[], work: () => Promise<unknown>): Promise<number> {
    const { store, answers } = this.api;
    const [version, answered] = [store.version, answers.length];
    await work();
    const events: StoreEvent[] = [];
    store.follow(version, (event) => events.push(event))();
    const done = events.filter(({ type, collection }) => {
      const plural = collection.slice(collection.lastIndexOf("/") + 1);
      return plurals.includes(plural) && !(plural === "ipamclaims" && type === "ADDED");
    });
    const refused = answers.slice(answered).filter((answer) => /^(POST|PUT|PATCH|DELETE) 4/.test(answer));
    return done.length + refused.length;
  }

  #until(what: string, isSo: () => boolean, everyMs: number): Promise<unknown> {
    const awaited = waitUntil(isSo, { what, limitMs: LIMIT_MS, everyMs });
    return Promise.race([awaited, this.#controller?.died ?? awaited]);
  }
}
