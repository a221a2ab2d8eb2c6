import { parseAddress } from "../addresses/address.ts";
import { Failure } from "../failure/failure.ts";
import { printable } from "../names/printable.ts";
import {
  type AddressProblem,
  addressProblems,
  clusterWords,
  leakTitle,
  leakWords,
  restingWords,
} from "../status/address-words.ts";
import {
  type AddressHolder,
  type InterfaceAddresses,
  type NodeAddresses,
  nodeAddressesShape,
  type PodAddresses,
  podAddressesShape,
  type WhoAnswer,
  whoShape,
} from "../status/addresses-shape.ts";
import { askAgent } from "../status/status-client.ts";
import { age, plural } from "../status/words.ts";
import { type CommandContext, EXIT, type ExitCode, podOf, print } from "./command-context.ts";
import { type Cell, type Column, hang, paint, renderTable, type Screen } from "./terminal.ts";

/** `vhostuserctl ip who`. */
export async function runIpWho(
  context: CommandContext,
  address: string,
  space: string | undefined,
): Promise<ExitCode> {
  if (parseAddress(address) === undefined)
    throw usage(
      `${JSON.stringify(address)} is not an address`,
      "write an IPv4 or IPv6 address without a prefix length",
    );
  const query = new URLSearchParams({ address, ...(space === undefined ? {} : { space }) });
  const found = await askAgent(await context.agent(), `/v1/who?${query}`, whoShape);
  if (found.holders.length === 0) {
    const what =
      space === undefined ? "the agent knows no AddressSpace yet" : `there is no AddressSpace ${space}`;
    throw usage(what, "kubectl get addressspaces lists them");
  }
  print(context, found, () => renderWho(context.screen, found));
  return found.holders.some(({ state }) => state === "unknown") ? EXIT.problem : EXIT.healthy;
}

/** `vhostuserctl ip of`. */
export async function runIpOf(context: CommandContext, asked: string): Promise<ExitCode> {
  const { name: pod, namespace } = podOf(context, asked);
  const query = new URLSearchParams({ pod, ...(namespace === undefined ? {} : { namespace }) });
  const found = await askAgent(await context.agent(), `/v1/pod?${query}`, podAddressesShape);
  if (found.interfaces.length === 0) {
    throw usage(
      `pod ${asked} has no address of kube-vhostuser-ipam on this node`,
      "kubectl get pod -o wide shows a pod's node",
    );
  }
  print(context, found, () => renderOf(context.screen, found, context.output === "wide"));
  return EXIT.healthy;
}

/** `vhostuserctl ip pools`. */
export async function runIpPools(context: CommandContext): Promise<ExitCode> {
  const found = await askAgent(await context.agent(), "/v1/addresses", nodeAddressesShape);
  const problems = addressProblems(found);
  print(context, { ...found, problems }, () => renderPools(context.screen, found, problems));
  return problems.some(({ verdict }) => verdict === "problem") ? EXIT.problem : EXIT.healthy;
}

/** `vhostuserctl ip leaks`. */
export async function runIpLeaks(context: CommandContext): Promise<ExitCode> {
  const found = await askAgent(await context.agent(), "/v1/addresses", nodeAddressesShape);
  const { leaks, resting, leftOut, node, at } = found;
  print(context, { node, at, leaks, resting, leftOut }, () => renderLeaks(context.screen, found));
  return leaks.length === 0 ? EXIT.healthy : EXIT.problem;
}

/** Who has an address, for people. */
export function renderWho(screen: Screen, unchecked: WhoAnswer): string {
  const answer = printable(unchecked);
  // A space in which no pool has the address says nothing about it.
  const telling = answer.holders.filter((one) => one.state !== "none" || one.pools.length > 0);
  const shown = telling.length === 0 ? answer.holders : telling;
  const lines = shown.flatMap((holder) => [
    paint(screen, "bold", `${answer.address} in space ${holder.space}`),
    ...holderWords(holder, answer).flatMap((text) => hang(screen, 4, "  ", text)),
  ]);
  const more = answer.leftOut === 0 ? [] : [`${plural(answer.leftOut, "more space")}: name one with --space`];
  return `${[...lines, ...more].join("\n")}\n`;
}

function holderWords(holder: AddressHolder, { address, node, at }: WhoAnswer): readonly string[] {
  switch (holder.state) {
    case "held": {
      const { pod, network, interface: name, claim, container, createdAt } = holder.interface;
      const kept = claim === undefined ? [] : [`kept by IPAMClaim ${pod?.namespace}/${claim}`];
      const lost = holder.isLost ? ", which is not this node's any more: the pod keeps the address" : "";
      return [
        `held on this node by ${pod === undefined ? "a pod that the runtime did not name" : `${pod.namespace}/${pod.name}`}`,
        `interface ${name} of network ${network}`,
        `sandbox ${container}`,
        createdAt === undefined ? "since before the node was booted" : `since ${age(at - createdAt)}`,
        `block ${holder.block}${lost}`,
        ...kept,
      ];
    }
    case "free": {
      const { untilAt } = holder;
      const rest = untilAt === undefined ? "" : `; it was released, and rests for ${age(untilAt - at)}`;
      return [`free: no pod has it, block ${holder.block} is this node's${rest}`];
    }
    case "node":
      if (holder.isQuarantined)
        return [
          `block ${holder.block} of node ${holder.node} is quarantined, because that node is gone: the controller frees it`,
        ];
      if (holder.node === node)
        return [
          `block ${holder.block} is this node's, and the agent hands out nothing of it now: vhostuserctl ip pools says why`,
        ];
      return [
        `in block ${holder.block} of node ${holder.node}`,
        `run there: vhostuserctl ip who ${address} --space ${holder.space}`,
      ];
    case "allocation": {
      const { owner, node: of, key, allocation } = holder;
      const kept = key === undefined ? "not held" : `kept for key ${key}`;
      const ofInterface = owner?.interface === undefined ? "" : `, interface ${owner.interface}`;
      const held = owner && `held by ${owner.kind} ${owner.namespace}/${owner.name}${ofInterface}`;
      return [
        `${held ?? kept}${of === undefined ? "" : `, node ${of}`}`,
        `run: kubectl get addressallocation ${allocation} -o yaml`,
      ];
    }
    case "shared":
      return [`free: block ${holder.block} is shared by all nodes, and no AddressAllocation has the address`];
    case "foreign":
      return [
        `block ${holder.block} belongs to another IPAM, which knows`,
        `run: kubectl get addressblock ${holder.block} -o yaml`,
      ];
    case "none":
      return holder.pools.length === 0
        ? ["not held: no pool has it"]
        : [`not held: no node has its block; it is of pool ${holder.pools.join(", ")}`];
    case "unknown":
      return [`not on this node; who else has it is not known: ${holder.reason}`];
  }
}

/** What a pod holds, for people. */
export function renderOf(screen: Screen, unchecked: PodAddresses, isWide: boolean): string {
  const { interfaces, at, leftOut } = printable(unchecked);
  const columns: Column[] = [
    { title: "ADDRESS" },
    { title: "POOL", elastic: "end" },
    { title: "INTERFACE", elastic: "end" },
    { title: "NETWORK", elastic: "end" },
    { title: "SANDBOX", elastic: "end" },
    { title: "AGE", right: true },
    ...(isWide ? ["GATEWAY", "BLOCK", "CLAIM"].map((title) => ({ title })) : []),
  ];
  const rows = (own: readonly InterfaceAddresses[]) =>
    own.flatMap(({ addresses, interface: name, network, claim = "-", container, createdAt }) =>
      addresses.map(({ address, pool = "-", gateway = "-", block }): Cell[] => [
        ...[address, pool, name, network, container],
        createdAt === undefined ? "-" : age(at - createdAt),
        ...(isWide ? [gateway, block, claim] : []),
      ]),
    );
  const pods = Map.groupBy(interfaces, ({ pod }) => `${pod?.namespace}/${pod?.name}`);
  const lines = [...pods].flatMap(([pod, own]) => [
    paint(screen, "bold", pod),
    ...renderTable(screen, columns, rows(own), 1),
  ]);
  return `${[...lines, ...omitted(leftOut, "interface")].join("\n")}\n`;
}

/** How full pools are, for people. */
export function renderPools(
  screen: Screen,
  unchecked: NodeAddresses,
  problems: readonly AddressProblem[],
): string {
  const { node, pools, blocks, leftOut } = printable(unchecked);
  const columns: Column[] = [
    { title: "POOL", elastic: "end" },
    { title: "SPACE", elastic: "end" },
    ...["BLOCKS", "USED", "FREE", "RESTING"].map((title) => ({ title, right: true })),
    { title: "USED IN CLUSTER", right: true },
  ];
  const rows = pools.map((pool): Cell[] => {
    const { blocks: own, used, free, resting } = pool.node;
    const cluster = clusterWords(pool) ?? "-";
    return [
      ...[pool.name, pool.space, String(own), String(used), String(free), String(resting)],
      pool.warning === undefined
        ? cluster
        : { text: cluster, tone: pool.warning.exhausted ? "bad" : "warning" },
    ];
  });
  const ofRanges = blocks.filter(({ pool }) => pool === undefined);
  const used = ofRanges.reduce((sum, block) => sum + block.used, 0);
  return [
    `node ${paint(screen, "bold", node)}, ${plural(blocks.length + leftOut.blocks, "block")} of addresses`,
    "",
    ...(rows.length === 0 ? ["no pools"] : renderTable(screen, columns, rows)),
    ...omitted(leftOut.pools, "pool"),
    ...(ofRanges.length === 0
      ? []
      : [`for ranges of networks: ${plural(ofRanges.length, "block")}, ${used} used`]),
    ...(problems.length === 0
      ? []
      : ["", ...printable(problems).flatMap((one) => problemLines(screen, one))]),
    "",
  ].join("\n");
}

function problemLines(screen: Screen, { verdict, what, cure }: AddressProblem): readonly string[] {
  const mark = paint(screen, verdict === "problem" ? "bad" : "warning", "- ");
  return [...hang(screen, 2, mark, what), ...hang(screen, 8, "  cure: ", cure)];
}

/** What is leaked and why it is still held, for people. */
export function renderLeaks(screen: Screen, unchecked: NodeAddresses): string {
  const addresses = printable(unchecked);
  const { leaks, leftOut, at } = addresses;
  const lines = leaks.flatMap((leak) => [
    paint(screen, "bold", leakTitle(leak)),
    ...hang(screen, 4, "  ", leakWords(leak)),
    ...(leak.goneAt === undefined ? [] : [`  seen for ${age(at - leak.goneAt)}`]),
  ]);
  const resting = restingWords(addresses);
  return `${[
    ...(leaks.length === 0 ? [paint(screen, "good", "no leaked addresses")] : lines),
    ...omitted(leftOut.leaks, "interface"),
    ...(resting === undefined ? [] : [resting]),
  ].join("\n")}\n`;
}

function omitted(count: number, noun: string): readonly string[] {
  return count === 0 ? [] : [`${plural(count, `more ${noun}`)} not listed`];
}

function usage(what: string, fix: string): Failure {
  return new Failure({ code: "invalid-request", what, fix });
}
