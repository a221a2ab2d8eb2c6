import { printable } from "../../names/printable.ts";
import { isBroken } from "../../status/diagnosis/chain.ts";
import { LINKS, type Link } from "../../status/diagnosis/link.ts";
import type { TracedInterface } from "../../status/shape.ts";
import { paint, type Screen, type Tone } from "../terminal/screen.ts";
import { wrap } from "../terminal/wrap.ts";

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
        ...labelled(screen, "cause", cause ?? ""),
        ...labelled(screen, "cure", cure ?? ""),
      ]),
  ];
}

function renderLink(screen: Screen, { name, verdict, what }: Link): string[] {
  const { text, tone } = MARKS[verdict];
  const mark = paint(screen, tone, text) + " ".repeat(MARK - text.length);
  return wrap(what, screen.columns - INDENT).map((line, index) =>
    index === 0 ? `  ${name.padEnd(NAME)}  ${mark}  ${line}` : `${" ".repeat(INDENT)}${line}`,
  );
}

function labelled(screen: Screen, label: string, text: string): string[] {
  const indent = "  cause: ".length;
  return wrap(text, screen.columns - indent).map((line, index) =>
    index === 0 ? `  ${`${label}:`.padEnd(indent - 2)}${line}` : `${" ".repeat(indent)}${line}`,
  );
}
