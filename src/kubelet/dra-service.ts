// What kubelet calls on a DRA driver: NodePrepareResources, NodeUnprepareResources and the stream of its devices' health.
import type { handleUnaryCall, UntypedServiceImplementation } from "@grpc/grpc-js";
import { Failure, toFailure } from "../failure/failure.ts";
import { loadService } from "../grpc/load-service.ts";
import { sendable } from "../grpc/status.ts";
import type { UnixServerOptions } from "../grpc/unix-server.ts";
import type { Logger } from "../logging/logger.ts";
import { present } from "../names/present.ts";
import type { Clock } from "../sync/clock.ts";
import { within } from "../sync/deadlines.ts";
import { KeyedMutex } from "../sync/keyed-mutex.ts";
import { type ListStream, ListStreams } from "./list-streams.ts";

/** A claim as kubelet names it: no more than where it is. */
export interface ClaimReference {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** A device of a prepared claim, as kubelet's API has it. */
export interface PreparedDevice {
  /** Of requests in the claim, without those of subrequests. */
  readonly request_names: readonly string[];
  readonly pool_name: string;
  readonly device_name: string;
  readonly cdi_device_ids: readonly string[];
  readonly share_id?: string;
}

/** What a driver does. Calls of one claim come one after the other. */
export interface DraCalls {
  /** May be repeated for a claim; kubelet does so after its own restart. @throws Failure, which the pod's event shows */
  prepare(claim: ClaimReference, signal: AbortSignal): Promise<readonly PreparedDevice[]>;
  /** Succeeds for a claim that was never prepared. @throws Failure, and kubelet calls again */
  unprepare(claim: ClaimReference, signal: AbortSignal): Promise<void>;
}

/** The health of a device; undefined while it is unknown. */
export interface DeviceHealth {
  readonly pool: string;
  readonly device: string;
  readonly healthy: boolean | undefined;
  readonly message?: string | undefined;
}

/** What a service is made of. */
export interface DraServiceOptions {
  readonly calls: DraCalls;
  /** Every device and its health. */
  readonly health: () => readonly DeviceHealth[];
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A driver's services, to be served on one socket. */
export interface DraService {
  readonly services: UnixServerOptions["services"];
  /** Sends the devices' health to kubelet. */
  sendHealth(): void;
  /** Ends the streams, gives running calls `graceMs` to end, then aborts them; resolves when all have. */
  end(graceMs: number): Promise<void>;
}

/** By the label under which kubelet knows them: newest first, for it takes the first that it supports. */
const SERVICES = {
  "v1.DRAPlugin": ["kubelet/dra-v1.proto", "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"],
  "v1beta1.DRAPlugin": ["kubelet/dra-v1beta1.proto", "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin"],
  "v1.DRAResourceHealth": ["kubelet/dra-health-v1.proto", "v1.DRAResourceHealth"],
  "v1alpha1.DRAResourceHealth": ["kubelet/dra-health-v1alpha1.proto", "v1alpha1.DRAResourceHealth"],
} as const;

/** Services as a registration announces them. Kubelet 1.36 opens the health stream whether announced or not. */
export const DRA_SERVICES: readonly string[] = Object.keys(SERVICES);

/** kubelet waits 45 s; what fails in time says why. */
const CALL_MS = 40_000;
/** Seconds after which kubelet takes a device's health for unknown; it is sent again every {@link HEALTH_EVERY_MS}. */
const HEALTH_TIMEOUT_S = 30;
export const HEALTH_EVERY_MS = 10_000;
const MESSAGE_MAX = 1_000;

export function draService(options: DraServiceOptions): DraService {
  const { calls, health, clock, logger } = options;
  const stop = new AbortController();
  const locks = new KeyedMutex();
  const running = new Set<Promise<unknown>>();
  const streams = new ListStreams({
    current: health,
    toMessage: (devices) => ({ devices: devices.map((one) => toWire(one, clock.now())) }),
  });

  const unary = <Answer>(
    verb: string,
    work: (claim: ClaimReference, signal: AbortSignal) => Promise<Answer>,
  ): handleUnaryCall<ClaimsRequest, { readonly claims: Readonly<Record<string, unknown>> }> => {
    const answer = async (claim: ClaimReference) => {
      const where = `claim ${claim.namespace}/${claim.name}`;
      const signal = within(stop.signal, CALL_MS);
      try {
        const lock = { key: claim.uid, what: verb, where, signal };
        return await locks.run(lock, () => work(claim, signal));
      } catch (error) {
        logger.error(
          { claim: `${claim.namespace}/${claim.name}`, verb, err: error },
          "a call of kubelet failed",
        );
        return { error: sendable(toFailure(error).message) };
      }
    };
    return async ({ request: { claims } }, respond) => {
      const answers = Promise.all(claims.map(async (claim) => [claim.uid, await answer(claim)] as const));
      running.add(answers);
      respond(null, { claims: Object.fromEntries(await answers) });
      running.delete(answers);
    };
  };

  const implementation: UntypedServiceImplementation = {
    NodePrepareResources: unary("NodePrepareResources", async (claim, signal) => ({
      devices: await calls.prepare(claim, signal),
    })),
    NodeUnprepareResources: unary("NodeUnprepareResources", async (claim, signal) => {
      await calls.unprepare(claim, signal);
      return {};
    }),
    NodeWatchResources: (stream: ListStream<{ readonly devices: readonly object[] }>) =>
      streams.serve(stream),
  };
  return {
    services: Object.values(SERVICES).map(([file, name]) => ({
      definition: loadService(file, name).definition,
      implementation,
    })),
    sendHealth: () => streams.refresh(),
    end: async (graceMs) => {
      streams.endAll();
      const grace = clock.sleep(graceMs, stop.signal).then(
        () => stop.abort(stopped()),
        () => undefined,
      );
      await Promise.race([grace, Promise.all(running)]);
      stop.abort(stopped());
      await Promise.all(running);
    },
  };
}

interface ClaimsRequest {
  readonly claims: readonly ClaimReference[];
}

function toWire({ pool, device, healthy, message }: DeviceHealth, nowMs: number): object {
  return present({
    device: { pool_name: pool, device_name: device },
    health: healthy === undefined ? 0 : healthy ? 1 : 2,
    last_updated_time: Math.floor(nowMs / 1000),
    health_check_timeout_seconds: HEALTH_TIMEOUT_S,
    message: message?.slice(0, MESSAGE_MAX).toWellFormed(),
  });
}

function stopped(): Failure {
  return new Failure({
    code: "busy",
    what: "the daemon stops",
    fix: "nothing to do: kubelet calls again when it is back",
  });
}
