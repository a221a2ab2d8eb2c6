import type { Dataplane, Readiness } from "../dataplane/dataplane.ts";
import type { PortInspection } from "../dataplane/port.ts";
import { describeThrown } from "../failure/failure.ts";
import type { Pool } from "../pools/pools.ts";
import type { InterfaceStatus } from "./shape.ts";

/** What one read of a switch gave. */
export interface SwitchReading {
  /** By name; undefined where it could not be read. */
  readonly ports: ReadonlyMap<string, PortInspection> | undefined;
  /** Why not. */
  readonly reason?: string;
  readonly version?: string;
}

/** Reads each switch once, however many pools use it; one that does not answer says why. */
export async function readSwitches(
  pools: Iterable<Pool>,
  signal: AbortSignal,
): Promise<ReadonlyMap<Dataplane, SwitchReading>> {
  const dataplanes = [...new Set([...pools].map(({ dataplane }) => dataplane))];
  const readings = dataplanes.map(async (one) => [one, await readSwitch(one, signal)] as const);
  return new Map(await Promise.all(readings));
}

async function readSwitch(dataplane: Dataplane, signal: AbortSignal): Promise<SwitchReading> {
  const [ports, version] = await Promise.allSettled([
    dataplane.inspectPorts(signal),
    dataplane.version(signal),
  ]);
  return {
    ...(ports.status === "fulfilled"
      ? { ports: new Map(ports.value.map((port) => [port.name, port])) }
      : { ports: undefined, reason: describeThrown(ports.reason) }),
    ...(version.status === "fulfilled" ? { version: version.value } : {}),
  };
}

/** Whether the switches can take ports on the pools' bridges, by pool. */
export async function probePools(
  pools: readonly Pool[],
  signal: AbortSignal,
): Promise<ReadonlyMap<Pool, Readiness>> {
  const probes = pools.map(
    async (pool) => [pool, await pool.dataplane.probe(pool.config.dataplane.bridge, signal)] as const,
  );
  return new Map(await Promise.all(probes));
}

/** The part of an interface's status that comes from its switch. */
export function portOf(
  name: string,
  reading: SwitchReading | undefined,
): Pick<InterfaceStatus, "port" | "portUnknown"> {
  if (reading === undefined) return { portUnknown: "its pool does not exist any more" };
  if (reading.ports === undefined)
    return { portUnknown: reading.reason ?? "the switch's ports cannot be read" };
  const found = reading.ports.get(name);
  if (found === undefined) return {};
  const { owner: _, socketFile: __, ...port } = found;
  return { port: { ...port, ...(port.drops === undefined ? {} : { drops: { ...port.drops } }) } };
}
