// A controller that dies at any request, others that lead beside it, and agents that allocate too.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ApiRig } from "../../../test/stand-in/api-server/api-rig.ts";
import { ClaimCluster } from "../../../test/stand-in/ipam/claim-cluster.ts";
import { ControllerRig } from "../../../test/stand-in/ipam/controller-rig.ts";
import { parseAddressPool } from "../../address-objects/address-pool.ts";
import { parseAddressSpace } from "../../address-objects/address-space.ts";
import { parseIpamClaim, writeClaimStatus } from "../../claims/ipam-claim.ts";
import { IPAM_CLAIMS, inNamespace } from "../../claims/resources.ts";
import { ApiFailure } from "../../kube-api/api-failure.ts";
import { allocateShared } from "../../pool-addresses/allocate-shared.ts";
import { releaseShared } from "../../pool-addresses/release-shared.ts";
import { IpamController } from "../controller.ts";
import type { ControllerApi } from "../controller-context.ts";

let all: ControllerRig;
let rig: ApiRig;
let claims: ClaimCluster;

async function open(): Promise<void> {
  all = await ControllerRig.open();
  ({ rig } = all);
  claims = new ClaimCluster(rig.server);
  all.cluster.pool("blue", ["10.0.0.0/24"]);
  all.cluster.pool("blue6", ["fd00::/64"]);
  all.cluster.blockOf("10.0.0.0/28", { kind: "Shared" });
  all.cluster.blockOf("fd00::/122", { kind: "Shared" });
  claims.network("dual", ["blue", "blue6"]);
}
beforeEach(open);
afterEach(() => all.close());

const published = (name: string) => claims.status(name).ips;
const LOOKS = [60, 60];

/** A client whose program dies at one of its requests for claims and addresses, before or after it is done. */
function dyingAt(request: number, when: "before" | "after", die: () => void): ControllerApi {
  const { client } = rig;
  let count = 0;
  const mortal = async <Value>(call: () => Promise<Value>): Promise<Value> => {
    count += 1;
    const dead = () => new Promise<never>(() => undefined);
    if (count > request) return dead();
    if (count < request) return call();
    if (when === "after") await call().catch(() => undefined);
    die();
    return dead();
  };
  return {
    get: (...call) => mortal(() => client.get(...call)),
    create: (...call) => mortal(() => client.create(...call)),
    update: (...call) => mortal(() => client.update(...call)),
    delete: (...call) => mortal(() => client.delete(...call)),
    list: (...call) => client.list(...call),
    openWatch: (...call) => client.openWatch(...call),
  };
}

describe("a controller that dies", () => {
  it("at any request for a claim's addresses leaves nothing behind (38)", async () => {
    const most = 6;
    let died = 0;
    for (let request = 1; request <= most; request++)
      for (const when of ["before", "after"] as const) {
        const stop = new AbortController();
        const name = `c${request}-${when}`;
        const death = Promise.withResolvers<void>();
        await all.start(
          dyingAt(request, when, () => {
            died += 1;
            stop.abort();
            death.resolve();
          }),
          { hasClaims: true, random: () => 0, signal: stop.signal },
        );
        claims.claim(name, "dual-network");
        await Promise.race([death.promise, rig.until(() => published(name).length > 0, 10)]);
        stop.abort();
        await rig.until(() => rig.server.watches.length === 0);
        const early = published(name);
        const next = await all.start(rig.client, { hasClaims: true, random: () => 0 });
        await rig.until(() => published(name).length > 0, 10);
        if (early.length > 0) expect(published(name)).toEqual(early);
        all.cluster.remove("tenant/ipamclaims", name);
        await all.looks(next, ...LOOKS);
        expect(claims.owners, `${name}: a crash leaves an address`).toEqual({});
        all.end();
        await rig.until(() => rig.server.watches.length === 0);
      }
    expect(died).toBeGreaterThan(most);
  });
});

describe("two controllers that both lead", () => {
  it("give each claim one address of each pool, and free it once", async () => {
    const both = [await start(), await start()];
    for (let index = 0; index < 6; index++) claims.claim(`c${index}`, "dual-network");
    await rig.until(() => names(6).every((name) => published(name).length === 2), 10);
    const ips = names(6).flatMap(published);
    expect(new Set(ips).size).toBe(12);
    await rig.until(() => Object.keys(claims.owners).length === 12, 10);
    for (const name of names(6)) all.cluster.remove("tenant/ipamclaims", name);
    for (const seconds of LOOKS) {
      await Promise.all(both.map((one) => all.look(one)));
      await rig.clock.advance(seconds * 1000);
    }
    await Promise.all(both.map((one) => all.look(one)));
    expect(claims.owners).toEqual({});
  });
});

describe("random events", () => {
  it.each([1, 2, 3])("never change or share an address, and leak none (seed %s)", async (seed) => {
    const dice = diceOf(seed);
    const first = new Map<string, string>();
    let running: { readonly stop: AbortController; readonly controller: IpamController }[] = [];
    let made = 0;
    const lives = new Map<string, string>();
    const check = () => {
      const owner = new Map<string, string>();
      for (const { metadata, status } of rig.server.store.all("ipamclaims")) {
        const ips = (status as { readonly ips?: readonly string[] } | undefined)?.ips ?? [];
        if (ips.length === 0) continue;
        const text = ips.join();
        expect(text, `${metadata.name} has other addresses than before`).toBe(
          first.get(metadata.uid) ?? text,
        );
        first.set(metadata.uid, text);
        for (const ip of ips) {
          expect(owner.get(ip), `${ip} is published twice`).toBeUndefined();
          owner.set(ip, metadata.name);
        }
      }
    };
    const events: readonly (() => Promise<void> | void)[] = [
      () => {
        const name = `c${made++ % 5}`;
        if (rig.server.store.find("tenant/ipamclaims", name) === undefined)
          lives.set(name, claims.claim(name, "dual-network").metadata.uid);
      },
      () => {
        const [name] = pickOf([...lives.keys()], dice);
        if (name !== undefined && lives.delete(name)) all.cluster.remove("tenant/ipamclaims", name);
      },
      async () => {
        const [name] = pickOf([...lives.keys()], dice);
        if (name !== undefined) await agentPublishes(name, dice);
      },
      async () => {
        rig.server.illnesses.length = 0;
        running.push(await follow(dice));
      },
      () => {
        const [one] = pickOf(running, dice);
        one?.stop.abort();
        running = running.filter((other) => other !== one);
      },
      async () => {
        for (const { controller } of running) await controller.pass(all.signal);
      },
      () => rig.server.endWatches("cut"),
      () => rig.clock.advance(30_000),
      () => void rig.server.illnesses.push({ kind: "half" }, undefined, { kind: "status", status: 503 }),
    ];
    for (let step = 0; step < 60; step++) {
      const [event] = pickOf(events, dice);
      await event?.();
      check();
    }
    for (const { stop } of running) stop.abort();
    rig.server.illnesses.length = 0;
    // All is well for ten minutes.
    const { controller } = await follow(dice);
    for (let minute = 0; minute < 10; minute++) {
      await rig.clock.advance(30_000);
      await all.looks(controller, 30);
      check();
    }
    await rig.until(() => [...lives.keys()].every((name) => published(name).length === 2), 100);
    const allocated = Object.keys(claims.owners).toSorted();
    const inUse = [...lives.keys()].flatMap(published).map((ip) => ip.split("/")[0]);
    expect(allocated).toEqual(inUse.toSorted());
  });
});

const start = () => all.start(rig.client, { hasClaims: true, random: () => 0 });

/** A controller beside others, which may be dying or may have lost their watches. */
async function follow(random: () => number) {
  const stop = new AbortController();
  const { client: api, clock, logger } = rig;
  const controller = new IpamController({ api, clock, logger, random, hasClaims: true });
  all.signal.addEventListener("abort", () => stop.abort());
  controller.follow(stop.signal).catch(() => undefined);
  await controller.view.whenSynced();
  controller.claims?.run(stop.signal).catch(() => undefined);
  return { stop, controller };
}

const names = (count: number) => Array.from({ length: count }, (_, index) => `c${index}`);

/** What an agent does whose controller does not answer: it may be overtaken, and may be killed between its writes. */
async function agentPublishes(name: string, dice: () => number): Promise<void> {
  const { client, clock } = rig;
  const { signal } = new AbortController();
  try {
    const read = await client.get(inNamespace(IPAM_CLAIMS, "tenant"), name, signal);
    const { uid, network, ips } = parseIpamClaim(read);
    if (ips.length > 0) return;
    const owner = { kind: "IPAMClaim", namespace: "tenant", name, uid, network };
    const allocations = [];
    for (const poolName of ["blue", "blue6"]) {
      const pool = parseAddressPool(rig.server.store.get("addresspools", poolName));
      const space = parseAddressSpace(rig.server.store.get("addressspaces", "default"));
      allocations.push(await allocateShared({ api: client, pool, space, owner, random: dice, signal }));
    }
    if (dice() < 0.3) return;
    const found = allocations.map(({ address }) => ({
      ...address,
      length: address.family === "ipv4" ? 24 : 64,
    }));
    const lastTransitionTime = new Date(clock.now()).toISOString();
    const condition = {
      type: "IPsAllocated",
      status: "True",
      reason: "SuccessfulAllocation",
      message: "",
    } as const;
    try {
      await writeClaimStatus(
        client,
        read,
        { ips: found, condition: { ...condition, lastTransitionTime } },
        signal,
      );
    } catch (error) {
      if (!(error instanceof ApiFailure)) throw error;
      const now = parseIpamClaim(await client.get(inNamespace(IPAM_CLAIMS, "tenant"), name, signal));
      if (now.uid !== uid || now.ips.length === 0) return;
      for (const one of allocations)
        if (!now.ips.some(({ value }) => value === one.address.value))
          await releaseShared(client, one, signal);
    }
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
  }
}

function pickOf<Value>(values: readonly Value[], dice: () => number): readonly Value[] {
  const index = Math.floor(dice() * values.length);
  return values.slice(index, index + 1);
}

/** A generator of Park and Miller. */
function diceOf(seed: number): () => number {
  let state = seed * 7919;
  return () => {
    state = (state * 16_807) % 2_147_483_647;
    return (state - 1) / 2_147_483_646;
  };
}
