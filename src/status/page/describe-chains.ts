import { printable } from "../../names/printable.ts";
import { isBroken, traceChain } from "../diagnosis/chain.ts";
import type { TraceAnswer, TracedInterface } from "../shape.ts";
import { interfaceWords } from "../words.ts";
import { healthOf, type PodName } from "./describe-node.ts";
import type { PodChains } from "./page-shape.ts";
import { vlanWords } from "./picture/words.ts";

/** Pure: what the page shows of one pod, the chain as `vhostuserctl trace` has it. */
export function describeChains(
  { namespace, name }: PodName,
  interfaces: TraceAnswer["interfaces"],
): PodChains {
  const described = interfaces.map((one) => {
    const chain = traceChain(one);
    return { name: interfaceWords(one), health: healthOf(chain.find(isBroken)), chain, facts: factsOf(one) };
  });
  return printable<PodChains>({ namespace, name, interfaces: described });
}

function factsOf(one: TracedInterface): PodChains["interfaces"][number]["facts"] {
  const { port, places, claim } = one;
  const packets = (of: { packets: number; dropped: number } | undefined) =>
    of && `${of.packets} packets, ${of.dropped} dropped`;
  const drops = Object.entries(port?.drops ?? {})
    .filter(([, count]) => count > 0)
    .map(([reason, count]) => `${reason} ${count}`);
  const all: readonly (readonly [label: string, value: string | number | undefined])[] = [
    ["network", one.network],
    ["MAC", one.mac],
    ["addresses", one.addresses?.join(", ") || undefined],
    ["VLAN", vlanWords(one)],
    ["MTU", port?.mtu ?? one.mtu],
    ["pairs of queues", port?.queuePairs],
    ["NUMA node", port?.numaNode],
    ["from the guest", packets(port?.traffic?.fromGuest)],
    ["to the guest", packets(port?.traffic?.toGuest)],
    ["drops", drops.length === 0 ? undefined : drops.join(", ")],
    ["pool", one.pool],
    claim === undefined
      ? ["resource", one.resource]
      : ["claim", `${claim.namespace}/${claim.name}, request ${claim.request}`],
    ["device", one.device],
    ["directory", places?.directory.path],
    ["socket in the pod", one.podSocket],
    ["port", one.portName],
    ["bridge", one.bridge],
    ["container", one.containerId],
  ];
  return all.flatMap(([label, value]) => (value === undefined ? [] : [[label, String(value)] as const]));
}
