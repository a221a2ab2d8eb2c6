import { setTimeout as delay } from "node:timers/promises";
import { describeThrown, Failure } from "../../failure/failure.ts";
import { printable, printableText } from "../../names/printable.ts";
import { type NodeStatus, nodeStatusShape } from "../../status/shape.ts";
import type { CommandContext } from "../command-context.ts";
import { EXIT, type ExitCode } from "../commands.ts";
import { askDaemon } from "../daemon-client.ts";
import { paint, type Screen } from "../terminal/screen.ts";
import { type Cell, type Column, renderTable } from "../terminal/table.ts";
import { short } from "../terminal/units.ts";
import { type InterfaceRates, type Rate, Rates } from "./rates.ts";

/** How `vhostuserctl top` goes on. */
export interface TopOptions {
  readonly once: boolean;
  /** As on the command line, in seconds. */
  readonly interval: string | undefined;
}

const USUAL_INTERVAL = 5;
const CLEAR = "\u001b[H\u001b[2J";

/** `vhostuserctl top`: goes on until it is told to stop, also over a restart of the daemon. */
export async function runTop(context: CommandContext, options: TopOptions): Promise<ExitCode> {
  const { signal } = context;
  const pauseMs = intervalOf(options.interval) * 1000;
  const socket = await context.socket();
  const rates = new Rates();
  // The first reading alone has no rates.
  for (let reading = 0; !signal.aborted; reading += 1) {
    const isLast = options.once && reading > 0;
    try {
      const status = await askDaemon(socket, "/v1/node", nodeStatusShape);
      const interfaces = rates.take(status);
      if (!options.once || isLast) show(context, status, interfaces);
    } catch (error) {
      if (options.once || reading === 0) throw error;
      if (!context.json) context.screen.write(`${printableText(describeThrown(error))}\n`);
    }
    if (isLast) break;
    await delay(pauseMs, undefined, { signal }).catch(() => undefined);
  }
  return EXIT.healthy;
}

/** On a terminal each table takes the place of the last. */
function show(
  { screen, json }: CommandContext,
  { at, node }: NodeStatus,
  interfaces: readonly InterfaceRates[],
): void {
  if (json) screen.write(`${JSON.stringify({ at, node, interfaces })}\n`);
  else screen.write(`${screen.interactive ? CLEAR : ""}${renderTop(screen, node, interfaces)}\n`);
}

/** A table of rates, for people. */
export function renderTop(screen: Screen, node: string, interfaces: readonly InterfaceRates[]): string {
  const columns: Column[] = [
    { title: "POD", elastic: "start" },
    { title: "INTERFACE" },
    ...["SENT", "bit/s", "DROPS", "RECV", "bit/s", "DROPS"].map((title) => ({
      title,
      right: true,
    })),
  ];
  const rows = printable(interfaces).map(({ pod, interface: name, fromGuest, toGuest }): Cell[] => [
    `${pod.namespace}/${pod.name}`,
    name,
    ...cells(fromGuest),
    ...cells(toGuest),
  ]);
  const title = `node ${printableText(node)}: packets, bits and drops per second, as the guest sees them`;
  return [paint(screen, "bold", title), "", ...renderTable(screen, columns, rows), ""].join("\n");
}

function cells(rate: Rate | undefined): Cell[] {
  if (rate === undefined) return ["-", "-", "-"];
  const drops = short(rate.drops);
  return [short(rate.packets), short(rate.bits), rate.drops > 0 ? { text: drops, tone: "bad" } : drops];
}

/** @throws Failure `invalid-request` */
function intervalOf(text: string | undefined): number {
  const seconds = text === undefined ? USUAL_INTERVAL : Number(text);
  if (seconds >= 0.1 && seconds <= 3600) return seconds;
  throw new Failure({
    code: "invalid-request",
    what: `an interval of ${JSON.stringify(text)} is none`,
    fix: "give seconds, from 0.1 to 3600",
  });
}
