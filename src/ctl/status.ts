import { printable } from "../names/printable.ts";
import { findProblems, type Problem } from "../status/diagnosis/problems.ts";
import { type InterfaceStatus, type NodeStatus, nodeStatusShape } from "../status/shape.ts";
import { askDaemon } from "../status/status-client.ts";
import { age, plural } from "../status/words.ts";
import { type CommandContext, EXIT, type ExitCode, print } from "./command-context.ts";
import { type Cell, type Column, hang, paint, renderTable, type Screen, short, wrap } from "./terminal.ts";

/** `vhostuserctl status`. */
export async function runStatus(context: CommandContext): Promise<ExitCode> {
  const node = await askDaemon(await context.socket(), "/v1/node", nodeStatusShape);
  const { namespace } = context;
  const isWanted = ({ pod }: { readonly pod?: InterfaceStatus["pod"] | undefined }) =>
    namespace === undefined || pod?.namespace === namespace;
  const { interfaces, allocations } = node;
  const status = {
    ...node,
    interfaces: interfaces.filter(isWanted),
    allocations: allocations.filter(isWanted),
  };
  const problems = findProblems(status);
  print(context, { ...status, problems }, () =>
    renderStatus(context.screen, status, problems, context.output === "wide"),
  );
  return problems.length === 0 ? EXIT.healthy : EXIT.problem;
}

/** The status of a node, for people. */
export function renderStatus(
  screen: Screen,
  unchecked: NodeStatus,
  found: readonly Problem[],
  isWide = false,
): string {
  const [status, problems] = printable([unchecked, found] as const);
  const { node, version, at, startedAt } = status;
  const head = [
    `node ${paint(screen, "bold", node)}`,
    `kube-vhostuser ${version}`,
    `up ${age(at - startedAt)}`,
    plural(status.interfaces.filter(({ state }) => state !== "allocated").length, "interface"),
  ].join(", ");
  return [
    head,
    "",
    ...renderPools(screen, status),
    ...renderPods(screen, status, isWide),
    ...renderRest(screen, status),
    ...renderProblems(screen, problems),
    "",
  ].join("\n");
}

function renderPools(screen: Screen, { pools }: NodeStatus): string[] {
  const columns: Column[] = [
    { title: "POOL", elastic: "end" },
    { title: "BRIDGE", elastic: "end" },
    { title: "SWITCH", elastic: "end" },
    { title: "READY" },
    { title: "KUBELET" },
    { title: "DEVICES", right: true },
    { title: "HEALTHY", right: true },
    { title: "USED", right: true },
  ];
  const rows = pools.map((pool): Cell[] => [
    pool.name,
    pool.bridge,
    pool.switch.version ?? pool.switch.kind,
    pool.switch.ready ? { text: "yes", tone: "good" } : { text: "no", tone: "bad" },
    kubelet(pool),
    String(pool.devices),
    String(pool.healthy),
    String(pool.inUse),
  ]);
  return renderTable(screen, columns, rows);
}

function kubelet({ registered, configured }: NodeStatus["pools"][number]): Cell {
  if (!configured) return { text: "removed", tone: "warning" };
  return registered ? "yes" : { text: "no", tone: "bad" };
}

function renderPods(screen: Screen, { interfaces, at }: NodeStatus, isWide: boolean): string[] {
  const pods = Map.groupBy(interfaces, ({ pod }) => `${pod.namespace}/${pod.name}`);
  const sorted = [...pods].sort(([one], [other]) => one.localeCompare(other));
  const columns: Column[] = [
    { title: "INTERFACE" },
    { title: "DEVICE", elastic: "start" },
    { title: "PORT" },
    { title: "PEER" },
    { title: "LINK" },
    { title: "Q", right: true },
    { title: "MTU", right: true },
    { title: "DROPS", right: true },
    { title: "AGE", right: true },
    ...(isWide ? ["NETWORK", "MAC", "SOCKET"].map((title) => ({ title })) : []),
  ];
  return sorted.flatMap(([pod, own]) => {
    const directories = [...new Set(own.flatMap(({ places }) => places?.allocation.path ?? []))];
    return [
      "",
      paint(screen, "bold", pod),
      ...directories.map((path) => ` ${paint(screen, "dim", "in")} ${path}`),
      ...renderTable(
        screen,
        columns,
        own.map((one) => [...cells(one, at), ...(isWide ? wideCells(one) : [])]),
        1,
      ),
    ];
  });
}

function cells(one: InterfaceStatus, at: number): Cell[] {
  const { port } = one;
  const mtu = port?.mtu ?? one.mtu;
  return [
    one.name ?? "-",
    one.device,
    portCell(one),
    port === undefined ? "-" : yesOrNo(port.connected),
    port === undefined ? "-" : { text: port.link, tone: port.link === "up" ? "good" : "warning" },
    number(port?.queuePairs),
    number(mtu),
    number(dropsOf(one)),
    age(at - one.createdAt),
  ];
}

function wideCells({ network, mac, podSocket }: InterfaceStatus): Cell[] {
  return [network, mac, podSocket].map((text) => text ?? "-");
}

function portCell({ port, portName = "-", portUnknown, state }: InterfaceStatus): Cell {
  if (state !== "attached") return { text: state, tone: "warning" };
  if (port?.error !== undefined) return { text: "failed", tone: "bad" };
  if (port !== undefined) return port.name;
  return portUnknown === undefined
    ? { text: "missing", tone: "bad" }
    : { text: `${portName}?`, tone: "warning" };
}

function yesOrNo(is: boolean): Cell {
  return is ? { text: "yes", tone: "good" } : { text: "no", tone: "warning" };
}

/** Packets that were dropped in both directions; undefined where the switch has no counters. */
function dropsOf({ port }: Pick<InterfaceStatus, "port">): number | undefined {
  const traffic = port?.traffic;
  return traffic && traffic.fromGuest.dropped + traffic.toGuest.dropped;
}

function number(value: number | undefined): string {
  return value === undefined ? "-" : short(value);
}

function renderRest(screen: Screen, status: NodeStatus): string[] {
  const { counts, allocations, interfaces, at, lastPassAt } = status;
  const attached = new Set(interfaces.flatMap(({ allocation }) => allocation ?? []));
  const unattached = allocations.filter(({ id }) => !attached.has(id));
  const repairs = Object.entries(counts.repairs).filter(([, count]) => count > 0);
  const errors = counts.errors.map((one) => `${one.source} ${one.code} ${one.count}`);
  const lines = [
    unattached.length > 0 && `${plural(unattached.length, "allocation")} without an interface`,
    `last pass of the reconciler: ${lastPassAt === undefined ? "none yet" : `${age(at - lastPassAt)} ago`}`,
    repairs.length > 0 && `repairs: ${repairs.map(([kind, count]) => `${kind} ${count}`).join(", ")}`,
    errors.length > 0 && `errors: ${errors.join(", ")}`,
  ].filter((line) => line !== false);
  return ["", ...lines.flatMap((line) => wrap(line, screen.columns))];
}

function renderProblems(screen: Screen, problems: readonly Problem[]): string[] {
  if (problems.length === 0) return ["", paint(screen, "good", "no problems")];
  return [
    "",
    paint(screen, "bad", plural(problems.length, "problem")),
    ...problems.flatMap(({ what, look }) => [
      ...hang(screen, 2, "- ", what),
      `  ${paint(screen, "dim", `see: ${look}`)}`,
    ]),
  ];
}
