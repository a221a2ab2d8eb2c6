/** How a command prints: where to, how wide, and whether in colour. */
export interface Screen {
  readonly columns: number;
  readonly colour: boolean;
  /** Whether somebody sits before it, so that one table may take the place of the last. */
  readonly interactive: boolean;
  write(text: string): void;
}

/** A colour that means something; a text reads the same without. */
export type Tone = "good" | "bad" | "warning" | "dim" | "bold";

const CODES: Readonly<Record<Tone, number>> = { good: 32, bad: 31, warning: 33, dim: 2, bold: 1 };
const MIN_COLUMNS = 40;
const USUAL_COLUMNS = 80;

/** Paints a text, where the screen has colour. */
export function paint({ colour }: Pick<Screen, "colour">, tone: Tone, text: string): string {
  return colour && text !== "" ? `\u001b[${CODES[tone]}m${text}\u001b[0m` : text;
}

/** What a screen is made of. */
export interface Terminal {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

/** A screen on a stream: colour on a terminal alone, and never with NO_COLOR (https://no-color.org) or TERM=dumb. */
export function openScreen(stream: Terminal, env: Readonly<Record<string, string | undefined>>): Screen {
  const isTerminal = stream.isTTY === true;
  // A terminal that does not know its width says 0, as one of kubectl exec may.
  const columns = isTerminal ? stream.columns || USUAL_COLUMNS : USUAL_COLUMNS;
  return {
    columns: Math.max(MIN_COLUMNS, columns),
    interactive: isTerminal && env["TERM"] !== "dumb",
    colour: isTerminal && !env["NO_COLOR"] && env["TERM"] !== "dumb",
    write: (text) => void stream.write(text),
  };
}
