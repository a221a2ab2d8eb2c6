import { describeThrown, type Failure } from "../../failure/failure.ts";
import type { PortRequest, PortState } from "../port.ts";
import { readApplied } from "./applied.ts";
import { differences } from "./check-port.ts";
import { checkRequest } from "./check-request.ts";
import type { OvsContext } from "./context.ts";
import { whyUnfit } from "./fitness.ts";
import { isOurs, isSameAttachment, settingsBefore } from "./marks.ts";
import { nextStep } from "./next-step.ts";
import { readPortState } from "./port-state.ts";
import { deleteFromDatabase, removePort } from "./remove-port.ts";
import { removeStrays } from "./remove-strays.ts";
import { fittingRequest, whySettingUnfit } from "./setting-fitness.ts";
import { dropSecurity, settleSecurity } from "./settle-security.ts";
import { ATTEMPTS, readMade, takeStep } from "./take-step.ts";
import { readView, type View } from "./view.ts";

const UNDO_LIMIT_MS = 5000;

/** {@link Dataplane.ensurePort}: looks, takes one step, waits until the switch has taken it too, looks again. */
export async function ensurePort(
  context: OvsContext,
  request: PortRequest,
  signal: AbortSignal,
): Promise<PortState> {
  checkRequest(request, context.node);
  const { state, unfit } = await settle(context, request, signal);
  if (unfit !== undefined) throw unfit;
  return state;
}

/** The port as it is now, and why a setting of it was left out, which is done for a port that is there only. */
interface Settled {
  readonly state: PortState;
  readonly unfit: Failure | undefined;
}

async function settle(context: OvsContext, request: PortRequest, signal: AbortSignal): Promise<Settled> {
  let inserted = false;
  let wasThere = false;
  const changes: string[] = [];
  try {
    for (let attempt = 1; ; attempt += 1) {
      const view = await readView(context.client, request, signal);
      const missing = request.settings.createBridge === true ? "made" : "unfit";
      const without = whyUnfit(view, request.bridge, { missing });
      if (without !== undefined) throw without;
      const unfit = whySettingUnfit(view.switch, request);
      // A guest that runs keeps what else was asked for, whatever the switch's administrator has changed.
      wasThere ||= view.port !== undefined && isSameAttachment(view.port.external_ids, request.owner);
      if (unfit !== undefined && !wasThere) throw unfit;
      const fitting = unfit === undefined ? request : fittingRequest(view.switch, request);
      const older = view.rivals.find(({ external_ids }) => isOurs(external_ids, context.node));
      if (older !== undefined && attempt < ATTEMPTS) {
        await removeOlder(context, older.name, request, signal);
        continue;
      }
      const step = nextStep(view, fitting);
      if (step.kind === "none") {
        const state = await finish(context, fitting, view, view.switch.next_cfg, signal);
        return { state: withChanges(state, changes), unfit };
      }
      // What the steps after the first one find they have made themselves.
      if (changes.length === 0) changes.push(...whyChanged(view, fitting));
      if (step.kind === "insert") await checkSecurable(context, request, view, signal);
      inserted = step.kind === "insert"; // from here on: when no answer comes it may be committed
      const number = await takeStep(context, request, step, attempt, signal);
      if (number === undefined) {
        inserted = false;
        continue;
      }
      if (step.kind === "delete") await readApplied(context, number, [], signal);
      else {
        const state = await finish(context, fitting, view, number, signal);
        return { state: withChanges(state, changes), unfit };
      }
    }
  } catch (failure) {
    if (inserted) await undo(context, request, failure);
    throw failure;
  }
}

function whyChanged(view: View, request: PortRequest): readonly string[] {
  const found = differences(view, request);
  return found.length > 0 ? found : [`port ${request.name} has other marks than its owner's`];
}

function withChanges(state: PortState, changes: readonly string[]): PortState {
  return changes.length === 0 ? state : { ...state, changes };
}

/**
 * A guest whose port was lost dials as soon as it is there again, so the flows must be possible before that. A bridge
 * of the same database that the switch has not made yet is waited for.
 */
async function checkSecurable(
  context: OvsContext,
  request: PortRequest,
  view: View,
  signal: AbortSignal,
): Promise<void> {
  const isThere = view.bridges.some(({ name }) => name === request.bridge);
  if (request.settings.security === undefined || !isThere) return;
  await readApplied(context, view.switch.next_cfg, [], signal);
  await context.security.reach(request.bridge, signal);
}

/**
 * A socket belongs to one interface of one allocation, so another port of ours on it is of an older sandbox whose
 * DEL never came, or whose record was lost. The switch takes one port per socket.
 */
async function removeOlder(
  context: OvsContext,
  name: string,
  request: PortRequest,
  signal: AbortSignal,
): Promise<void> {
  context.logger.warn(
    { port: name, socket: request.socketPath },
    "removing an older sandbox's port of the same socket",
  );
  await removePort(context, name, signal);
}

/** What is left to do for a port that is in the database as asked, once the switch has made it. */
async function finish(
  context: OvsContext,
  request: PortRequest,
  before: View,
  number: number,
  signal: AbortSignal,
): Promise<PortState> {
  const { port, row } = await readMade(context, request, number, signal);
  await settleSecurity(context, request, settingsBefore(before.port?.external_ids ?? new Map()), signal);
  if (request.settings.toGuest === undefined && before.qos.length > 0) {
    await dropLimit(context, request, signal);
  }
  return readPortState(request.bridge, port, row);
}

/** Deletes the QoS row that the port does not refer to any more. The port itself is made, whatever becomes of this. */
async function dropLimit(context: OvsContext, request: PortRequest, signal: AbortSignal): Promise<void> {
  try {
    await removeStrays(context, request.name, signal);
  } catch (thrown) {
    context.logger.warn(
      { port: request.name, reason: describeThrown(thrown) },
      "a QoS row that is not used any more stays until the next pass",
    );
  }
}

/** Also where the answer to the insert never came: what is deleted is known by its mark, not by its uuid. */
async function undo(context: OvsContext, request: PortRequest, failure: unknown): Promise<void> {
  const port = request.name;
  try {
    const mine = (ids: ReadonlyMap<string, string>) => isSameAttachment(ids, request.owner);
    const limit = AbortSignal.timeout(UNDO_LIMIT_MS);
    const deleted = await deleteFromDatabase(context, port, mine, limit);
    await dropSecurity(context, port, deleted?.securedOn, limit);
    context.logger.info({ port, reason: describeThrown(failure) }, "took back a port that was not made");
  } catch (thrown) {
    context.logger.warn(
      { port, reason: describeThrown(failure), err: thrown },
      "could not take back a port that was not made; the next ADD adopts it or collection removes it",
    );
  }
}
