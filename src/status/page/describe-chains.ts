import { printable } from "../../names/printable.ts";
import { isBroken, traceChain } from "../diagnosis/chain.ts";
import { LINKS } from "../diagnosis/link.ts";
import type { TraceAnswer, TracedInterface } from "../shape.ts";
import { healthOf, type PodName } from "./describe-node.ts";
import type { PageChain, PodChains } from "./page-shape.ts";

/** Pure: what the page shows of one pod, the chain as `vhostuserctl trace` has it. */
export function describeChains(pod: PodName, { interfaces }: TraceAnswer): PodChains {
  const { namespace, name } = pod;
  return printable<PodChains>({ namespace, name, interfaces: interfaces.map(describe) });
}

function describe(one: TracedInterface): PageChain {
  const chain = traceChain(one);
  return {
    name: one.name ?? `device ${one.device}`,
    health: healthOf(chain.find(isBroken)),
    chain,
    beyond: LINKS.slice(chain.length),
    facts: factsOf(one),
  };
}

function factsOf(one: TracedInterface): PageChain["facts"] {
  const { port, vlan, places } = one;
  const packets = (of: { packets: number; dropped: number } | undefined) =>
    of && `${of.packets} packets, ${of.dropped} dropped`;
  const drops = Object.entries(port?.drops ?? {})
    .filter(([, count]) => count > 0)
    .map(([reason, count]) => `${reason} ${count}`);
  const all: readonly (readonly [string, string | number | undefined])[] = [
    ["network", one.network],
    ["MAC", one.mac],
    ["VLAN", vlan && [vlan.mode, vlan.tag, ...vlan.trunks].filter((part) => part !== undefined).join(" ")],
    ["MTU", port?.mtu ?? one.mtu],
    ["pairs of queues", port?.queuePairs],
    ["NUMA node", port?.numaNode],
    ["from the guest", packets(port?.traffic?.fromGuest)],
    ["to the guest", packets(port?.traffic?.toGuest)],
    ["drops", drops.length === 0 ? undefined : drops.join(", ")],
    ["pool", one.pool],
    ["resource", one.resource],
    ["device", one.device],
    ["directory", places?.directory.path],
    ["socket in the pod", one.podSocket],
    ["port", one.portName],
    ["bridge", one.bridge],
    ["container", one.containerId],
  ];
  return all.flatMap(([label, value]) => (value === undefined ? [] : [[label, String(value)] as const]));
}
