import { ADDRESS_POOLS, ADDRESS_SPACES } from "../address-objects/resources.ts";
import type { Answer } from "../cni/answer.ts";
import { StaleRequestFilter } from "../cni/stale-requests.ts";
import { describeThrown } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";
import { KeyedMutex } from "../sync/keyed-mutex.ts";
import type { AgentApi, AgentContext, ClaimsMode } from "./agent-context.ts";
import { answer } from "./answer.ts";
import { BlockSupply } from "./block-supply.ts";
import { forgetFormer } from "./claims/former-addresses.ts";
import { LeakCollector } from "./collect-leaks.ts";
import { SharedCollector } from "./collect-shared.ts";
import { followObjects } from "./follow-objects.ts";
import { NodeState, type OpenJournal } from "./node-state.ts";
import { OwnBlocks } from "./own-blocks.ts";
import { reportUsed } from "./report-used.ts";
import type { AgentRequest } from "./request.ts";
import { returnBlocks } from "./return-blocks.ts";
import { SurvivorWatch } from "./survivors.ts";

/** What an agent is made of; all that it knows of the world outside comes through these. */
export interface AgentOptions {
  /** Name of the node. */
  readonly node: string;
  readonly api: AgentApi;
  /** Where the journal is kept. */
  readonly stateDirectory: string;
  /** Default: {@link Journal.open} */
  readonly openJournal?: OpenJournal;
  /** Changes with every boot of the node (random(4)). */
  readonly bootId: string;
  /**
   * Whether a network namespace is there, by its path.
   * @throws where that cannot be known
   */
  readonly hasNetns: (path: string) => Promise<boolean>;
  /**
   * Paths of the network namespaces that are there.
   * @throws where that cannot be known
   */
  readonly listNetns: () => Promise<readonly string[]>;
  /** Default `off`. */
  readonly claims?: ClaimsMode | undefined;
  /** UID of the agent's own pod, where it runs in one. */
  readonly ownPodUid?: string | undefined;
  /** From 0 up to 1: where large pools and shared addresses are tried, and pauses of watches; default Math.random. */
  readonly random?: () => number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** An agent that works until it is closed. */
export interface Agent {
  /** Carries out a CNI verb; never rejects. Any number of calls may run at once. @param signal the verb's deadline */
  handle(request: AgentRequest, signal: AbortSignal): Promise<Answer>;
  /** What the agent knows, for metrics, vhostuserctl and tests; to be read only. */
  readonly state: NodeState;
  readonly leaks: Pick<LeakCollector, "suspects" | "collected" | "goneSinceMs" | "isSuperseded">;
  /** Passes that are over, and when the last one was or the agent was started, in milliseconds of the monotonic clock. */
  readonly passes: { readonly count: number; readonly lastMs: number };
  /** Ends requests to the API server and waits for the work that runs; blocks and allocations stay. */
  close(): Promise<void>;
}

/** Between two passes over allocations and blocks, in milliseconds. */
const PASS_MS = 60_000;
/** Of so many passes one writes the blocks' status. */
const PASSES_PER_REPORT = 5;
/** Before the blocks are confirmed again where that failed, in milliseconds. */
const CONFIRM_AGAIN_MS = 5_000;

/**
 * Starts the agent of a node without any socket: it reads its journal, follows pools, spaces and its own blocks, and looks
 * once a minute for addresses and blocks to release. It answers from the journal at once, also while the API server is away.
 * @throws Failure `record-unreadable`, `record-unwritable`
 */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const {
    node,
    api,
    hasNetns,
    listNetns,
    claims = "off",
    ownPodUid,
    random = Math.random,
    clock,
    logger,
  } = options;
  const { stateDirectory: directory, bootId, openJournal } = options;
  const state = await NodeState.open({ directory, bootId, openJournal, clock, logger });
  const context: AgentContext = {
    ...{ node, api, state, hasNetns, listNetns, claims, ownPodUid, random, clock, logger },
    locks: new KeyedMutex(),
    stale: new StaleRequestFilter(),
    newestAdds: new Map(),
  };
  const own = new OwnBlocks(context);
  const supply = new BlockSupply(context, own);
  const leaks = new LeakCollector(context);
  const shared = new SharedCollector(context);
  const survivors = new SurvivorWatch(context, own);
  const closing = new AbortController();
  const { signal } = closing;
  supply.run(signal);

  const passes = { count: 0, lastMs: clock.monotonic() };
  const pass = async () => {
    for (;;) {
      await clock.sleep(PASS_MS, signal);
      const isReport = passes.count % PASSES_PER_REPORT === PASSES_PER_REPORT - 1;
      for (const work of [
        () => leaks.look(signal),
        () => forgetFormer(context),
        () => shared.look(signal),
        () => survivors.look(signal),
        () => returnBlocks(context, own, supply, signal),
        ...(isReport ? [() => reportUsed(context, own, signal)] : []),
      ]) {
        await work().catch((error: unknown) => {
          signal.throwIfAborted();
          logger.warn(
            { reason: describeThrown(error) },
            "a part of the pass failed, it is tried again in a minute",
          );
        });
      }
      passes.count++;
      passes.lastMs = clock.monotonic();
    }
  };
  const confirm = async () => {
    while (!state.isConfirmed) {
      await own.confirm(signal).catch(async (error: unknown) => {
        signal.throwIfAborted();
        logger.warn({ reason: describeThrown(error) }, "this node's blocks cannot be confirmed");
        await clock.sleep(CONFIRM_AGAIN_MS, signal);
      });
    }
  };
  const running = [
    own.run(signal),
    confirm(),
    followObjects("space", ADDRESS_SPACES, context, signal),
    followObjects("pool", ADDRESS_POOLS, context, signal),
    pass(),
  ];
  const handling = new Set<Promise<Answer>>();
  const ended = Promise.all(
    running.map((work) =>
      work.catch((err: unknown) => {
        if (!signal.aborted) logger.error({ err }, "a part of the agent has ended");
      }),
    ),
  );
  return {
    ...{ state, leaks, passes },
    handle(request, deadline) {
      const answered = answer(request, { own, supply }, context, deadline);
      handling.add(answered);
      return answered.finally(() => handling.delete(answered));
    },
    async close() {
      await Promise.allSettled(handling);
      closing.abort();
      await ended;
    },
  };
}
