import { Failure } from "../failure/failure.ts";
import { printable } from "../names/printable.ts";
import { isLauncherOf } from "../names/virt-launcher.ts";
import { isBroken, traceChain } from "../status/diagnosis/chain.ts";
import { LINKS, type Link } from "../status/diagnosis/link.ts";
import { type NodeStatus, nodeStatusShape, type TracedInterface, traceShape } from "../status/shape.ts";
import { askDaemon } from "../status/status-client.ts";
import { type CommandContext, EXIT, type ExitCode, podOf, print } from "./command-context.ts";
import { hang, paint, type Screen, type Tone } from "./terminal.ts";

/** Which pod, and which of its interfaces. */
export interface TraceOptions {
  /** `name` or `namespace/name`. */
  readonly pod: string;
  readonly interface: string | undefined;
}

/** `vhostuserctl trace`. */
export async function runTrace(context: CommandContext, options: TraceOptions): Promise<ExitCode> {
  const socket = await context.socket();
  const { name, namespace } = podOf(context, options.pod);
  const ask = async (pod: string, of: string | undefined) => {
    const query = new URLSearchParams({ pod, ...(of === undefined ? {} : { namespace: of }) });
    return (await askDaemon(socket, `/v1/trace?${query}`, traceShape)).interfaces;
  };
  let found = await ask(name, namespace);
  if (found.length === 0) {
    const status = await askDaemon(socket, "/v1/node", nodeStatusShape);
    const launchers = podsOfVm(status, name, namespace);
    found = (await Promise.all(launchers.map((pod) => ask(pod.name, pod.namespace)))).flat();
  }
  const wanted = found.filter(({ name: own, device }) =>
    [undefined, own, device].includes(options.interface),
  );
  if (wanted.length === 0) {
    const other = found.map((one) => one.name ?? one.device);
    throw usage(
      `pod ${options.pod} has no ${options.interface === undefined ? "vhost-user device" : `interface ${options.interface}`} on this node`,
      other.length === 0
        ? "vhostuserctl status lists the pods of this node; kubectl get pod -o wide shows a pod's node"
        : `it has ${other.join(", ")}`,
    );
  }
  const traced = wanted.map((one) => ({ interface: one, chain: traceChain(one) }));
  const printed = traced.map(({ interface: one, chain }) => {
    return { ...one, chain, broken: chain.find(isBroken)?.name ?? null };
  });
  print(context, printed, () => renderTrace(context.screen, traced));
  return traced.some(({ chain }) => chain.some(isBroken)) ? EXIT.problem : EXIT.healthy;
}

/** KubeVirt's pods of a VM: two of them while it migrates within the node. */
function podsOfVm({ interfaces }: NodeStatus, vm: string, namespace: string | undefined) {
  const pods = interfaces
    .map(({ pod }) => pod)
    .filter((pod) => isLauncherOf(pod.name, vm) && (namespace === undefined || pod.namespace === namespace));
  return [...new Map(pods.map((pod) => [`${pod.namespace}/${pod.name}`, pod])).values()];
}

function usage(what: string, fix: string): Failure {
  return new Failure({ code: "invalid-request", what, fix });
}

const MARKS: Readonly<Record<Link["verdict"], { readonly text: string; readonly tone: Tone }>> = {
  ok: { text: "ok", tone: "good" },
  broken: { text: "BROKEN", tone: "bad" },
  waiting: { text: "WAITING", tone: "warning" },
  unknown: { text: "?", tone: "dim" },
};
const NAME = Math.max(...LINKS.map((name) => name.length));
const MARK = Math.max(...Object.values(MARKS).map(({ text }) => text.length));
/** Where what was found begins. */
const INDENT = 2 + NAME + 2 + MARK + 2;

/** An interface with its chain. */
export interface Traced {
  readonly interface: TracedInterface;
  readonly chain: readonly Link[];
}

/** Chains, for people: one link a line, the broken one with its cause and cure. */
export function renderTrace(screen: Screen, traced: readonly Traced[]): string {
  return printable(traced)
    .map((one) => `${renderOne(screen, one).join("\n")}\n`)
    .join("\n");
}

function renderOne(screen: Screen, { interface: one, chain }: Traced): string[] {
  const title = `${one.pod.namespace}/${one.pod.name}, ${one.name ?? `device ${one.device}`}`;
  const missing = LINKS.slice(chain.length);
  return [
    paint(screen, "bold", title),
    ...chain.flatMap((link) => renderLink(screen, link)),
    ...missing.map((name) => `  ${paint(screen, "dim", `${name.padEnd(NAME)}  -`)}`),
    ...chain
      .filter(isBroken)
      .flatMap(({ name, cause, cure }) => [
        "",
        `  The chain breaks at ${paint(screen, "bold", name)}.`,
        ...hang(screen, 9, "  cause: ", cause ?? ""),
        ...hang(screen, 9, "  cure:  ", cure ?? ""),
      ]),
  ];
}

function renderLink(screen: Screen, { name, verdict, what }: Link): string[] {
  const { text, tone } = MARKS[verdict];
  const mark = paint(screen, tone, text) + " ".repeat(MARK - text.length);
  return hang(screen, INDENT, `  ${name.padEnd(NAME)}  ${mark}  `, what);
}
