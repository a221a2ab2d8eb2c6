import type { PortInspection, Traffic } from "../port.ts";
import type { OvsContext } from "./context.ts";
import { readOwnPorts } from "./list-ports.ts";
import { readPortState } from "./port-state.ts";
import { type CountedInterfaceRow, countedInterfaceTable } from "./rows.ts";

/**
 * {@link Dataplane.inspectPorts}: from the columns `status` and `statistics`, which the switch writes every five
 * seconds (`other_config:stats-update-interval`).
 */
export async function inspectPorts(
  context: OvsContext,
  signal: AbortSignal,
): Promise<readonly PortInspection[]> {
  const ports = await readOwnPorts(context, countedInterfaceTable, signal);
  return ports.map(({ bridge, port, interface: row }) => ({
    ...readPortState(bridge, port, row),
    ...(row === undefined ? {} : inspect(row)),
  }));
}

type Details = Omit<PortInspection, keyof ReturnType<typeof readPortState>>;

/** Pure: what an Interface row tells beyond the port's state. */
export function inspect({ status, statistics }: Pick<CountedInterfaceRow, "status" | "statistics">): Details {
  const connected = status.get("status") === "connected";
  const rings = whole(status.get("num_of_vrings"));
  const numaNode = whole(status.get("numa"));
  const drops = [...statistics].filter(([name, count]) => /_drop(s|ped)$/.test(name) && count > 0);
  return {
    // A ring for each direction.
    ...(connected && rings !== undefined ? { queuePairs: Math.floor(rings / 2) } : {}),
    ...(connected && numaNode !== undefined ? { numaNode } : {}),
    // What the switch receives is what the guest sends.
    ...(statistics.has("rx_packets")
      ? { traffic: { fromGuest: traffic(statistics, "rx"), toGuest: traffic(statistics, "tx") } }
      : {}),
    ...(drops.length > 0 ? { drops: Object.fromEntries(drops) } : {}),
  };
}

function traffic(statistics: ReadonlyMap<string, number>, side: "rx" | "tx"): Traffic {
  const read = (what: string) => statistics.get(`${side}_${what}`) ?? 0;
  return { packets: read("packets"), bytes: read("bytes"), dropped: read("dropped") };
}

function whole(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
}
