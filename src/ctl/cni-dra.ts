import { Failure } from "../failure/failure.ts";
import { printable } from "../names/printable.ts";
import {
  type CheckedInterfaces,
  type ClaimInterface,
  type ClaimInterfaces,
  checkedShape,
  claimInterfacesShape,
  type GivenUp,
  givenUpShape,
} from "../status/claim-interfaces-shape.ts";
import { askCniDra } from "../status/status-client.ts";
import { age, plural } from "../status/words.ts";
import { type CommandContext, EXIT, type ExitCode, podOf, print } from "./command-context.ts";
import { type Cell, type Column, hang, paint, renderTable, type Screen } from "./terminal.ts";

/** `vhostuserctl cni-dra list`. Exit code 1 where a DEL has failed for ten minutes, or the runtime is not connected. */
export async function runCniDraList(context: CommandContext): Promise<ExitCode> {
  const { namespace } = context;
  const query = new URLSearchParams(namespace === undefined ? {} : { namespace });
  const found = await askCniDra(await context.cniDra(), `/v1/interfaces?${query}`, claimInterfacesShape);
  print(context, found, () => renderList(context.screen, found, context.output === "wide"));
  const isStuck = found.interfaces.some(({ failingDel }) => failingDel?.isStuck);
  return isStuck || !found.isConnected ? EXIT.problem : EXIT.healthy;
}

/** `vhostuserctl cni-dra check`. Exit code 1 where a plugin's CHECK fails. */
export async function runCniDraCheck(context: CommandContext, asked: string): Promise<ExitCode> {
  const { name: pod, namespace } = podOf(context, asked);
  const query = new URLSearchParams({ pod, ...(namespace === undefined ? {} : { namespace }) });
  const found = await askCniDra(await context.cniDra(), `/v1/check?${query}`, checkedShape, "POST");
  if (found.interfaces.length === 0) {
    throw usage(
      `pod ${asked} has no interface of cni-dra on this node`,
      "kubectl get pod -o wide shows a pod's node",
    );
  }
  print(context, found, () => renderChecked(context.screen, found));
  return found.interfaces.some(({ outcome }) => outcome === "failed") ? EXIT.problem : EXIT.healthy;
}

/** `vhostuserctl cni-dra give-up`. */
export async function runCniDraGiveUp(
  context: CommandContext,
  asked: string,
  ifName: string,
): Promise<ExitCode> {
  const { name: pod, namespace } = podOf(context, asked);
  if (namespace === undefined) throw usage(`the namespace of pod ${asked} is missing`, "write NAMESPACE/POD");
  const query = new URLSearchParams({ namespace, pod, interface: ifName });
  const found = await askCniDra(await context.cniDra(), `/v1/give-up?${query}`, givenUpShape, "POST");
  if (found.interfaces.length === 0) {
    throw usage(
      `no DEL of interface ${ifName} of pod ${namespace}/${pod} fails on this node`,
      "vhostuserctl cni-dra list shows those that do",
    );
  }
  print(context, found, () => renderGivenUp(context.screen, found));
  return EXIT.healthy;
}

/** The interfaces of a node, for people. */
export function renderList(screen: Screen, unchecked: ClaimInterfaces, isWide: boolean): string {
  const { interfaces, isConnected, leftOut, at } = printable(unchecked);
  const columns: Column[] = [
    { title: "POD", elastic: "end" },
    { title: "INTERFACE" },
    { title: "NETWORK", elastic: "end" },
    { title: "PLUGINS", elastic: "end" },
    { title: "STATE" },
    { title: "AGE", right: true },
    ...(isWide ? ["CLAIM", "SANDBOX", "ADDRESSES"].map((title) => ({ title })) : []),
  ];
  const rows = interfaces.flatMap((one) => {
    const first: Cell[] = [podName(one), one.interface, one.network, one.plugins.join(",")];
    if (one.sandboxes.length === 0)
      return [[...first, "prepared", "-", ...(isWide ? [`${one.claim}/${one.request}`, "-", "-"] : [])]];
    return one.sandboxes.map(({ state, addedAt, sandbox, addresses }): Cell[] => [
      ...first,
      state === "deleting" && one.failingDel !== undefined ? { text: "DEL fails", tone: "bad" } : state,
      age(at - addedAt),
      ...(isWide ? [`${one.claim}/${one.request}`, sandbox, addresses.join(",") || "-"] : []),
    ]);
  });
  const failing = interfaces.flatMap((one) => {
    const { failingDel: del } = one;
    if (del === undefined) return [];
    const mark = paint(screen, del.isStuck ? "bad" : "warning", "- ");
    const what = `DEL of ${podName(one)} ${one.interface} has failed for ${age(at - del.sinceAt)}: ${del.message}`;
    const cure = `repair what the plugin names; vhostuserctl cni-dra give-up ${podName(one)} ${one.interface} if that cannot be done`;
    return [...hang(screen, 2, mark, what), ...hang(screen, 8, "  cure: ", cure)];
  });
  const away = paint(screen, "bad", "the container runtime is not connected: no new pod gets an interface");
  return `${[
    ...(rows.length === 0 ? ["no interfaces"] : renderTable(screen, columns, rows)),
    ...(leftOut === 0 ? [] : [`${plural(leftOut, "more interface")} not listed`]),
    ...(failing.length === 0 ? [] : ["", ...failing]),
    ...(isConnected ? [] : ["", away]),
  ].join("\n")}\n`;
}

/** What CHECK found, for people. */
export function renderChecked(screen: Screen, unchecked: CheckedInterfaces): string {
  const tones = { ok: "good", failed: "bad", unchecked: "warning" } as const;
  const lines = printable(unchecked).interfaces.flatMap(({ outcome, reason, ...one }) => {
    const what = `${podName(one)} ${one.interface}, network ${one.network}: `;
    return hang(
      screen,
      2,
      "",
      `${what}${paint(screen, tones[outcome], outcome)}${reason === undefined ? "" : `, ${reason}`}`,
    );
  });
  return `${lines.join("\n")}\n`;
}

/** What was given up and may be left behind, for people. */
export function renderGivenUp(screen: Screen, unchecked: GivenUp): string {
  const lines = printable(unchecked).interfaces.flatMap((one) => [
    paint(screen, "bold", `gave up DEL of ${podName(one)} ${one.interface}, network ${one.network}`),
    ...one.sandboxes.flatMap(({ sandbox, addresses, hostInterfaces }) => {
      const things = [
        ...(addresses.length === 0 ? [] : [`addresses ${addresses.join(", ")}`]),
        ...(hostInterfaces.length === 0 ? [] : [`host interfaces ${hostInterfaces.join(", ")}`]),
      ];
      const such = things.length === 0 ? "" : `, such as ${things.join(" and ")}`;
      const left = `may be left behind: what ${one.plugins.join(" and ")} keep for sandbox ${sandbox}${such}`;
      return hang(screen, 4, "  ", left);
    }),
  ]);
  return `${lines.join("\n")}\n`;
}

function podName({ pod }: Pick<ClaimInterface, "pod">): string {
  return `${pod.namespace}/${pod.name}`;
}

function usage(what: string, fix: string): Failure {
  return new Failure({ code: "invalid-request", what, fix });
}
