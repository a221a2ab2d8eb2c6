import { styleText } from "node:util";

// What all commands print with: colours, tables and texts no wider than the screen.

/** How a command prints: where to, how wide, and whether in colour. */
export interface Screen {
  readonly columns: number;
  readonly colour: boolean;
  write(text: string): void;
}

/** A colour that means something; a text reads the same without. */
export type Tone = "good" | "bad" | "warning" | "dim" | "bold";

const STYLES = { good: "green", bad: "red", warning: "yellow", dim: "dim", bold: "bold" } as const;
const MIN_COLUMNS = 40;
const USUAL_COLUMNS = 80;

/** Paints a text, where the screen has colour. */
export function paint({ colour }: Pick<Screen, "colour">, tone: Tone, text: string): string {
  return colour && text !== "" ? styleText(STYLES[tone], text, { validateStream: false }) : text;
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
  return {
    // A terminal that does not know its width says 0, as one of kubectl exec may. Nothing is cut for a program.
    columns: isTerminal ? Math.max(MIN_COLUMNS, stream.columns || USUAL_COLUMNS) : Number.POSITIVE_INFINITY,
    colour: isTerminal && !env["NO_COLOR"] && env["TERM"] !== "dumb",
    write: (text) => void stream.write(text),
  };
}

/** A column of a table. */
export interface Column {
  readonly title: string;
  /** Aligned to the right, for numbers. */
  readonly right?: boolean;
  /** May be cut at this side, with a `~` there, where the screen is too narrow. */
  readonly elastic?: "start" | "end";
}

/** A cell; a text, or one with a tone. */
export type Cell = string | { readonly text: string; readonly tone: Tone };

const GAP = 2;
const LEAST = 8;

/** A table no wider than the screen, as far as its elastic columns let it; one line for each row. */
export function renderTable(
  screen: Screen,
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  indent = 0,
): string[] {
  const texts = rows.map((row) => row.map(textOf));
  const natural = columns.map(({ title }, index) =>
    Math.max(title.length, ...texts.map((row) => (row[index] ?? "").length)),
  );
  const widths = shrink(columns, natural, screen.columns - indent);
  const line = (cells: readonly string[], toneOf: (index: number) => Tone | undefined) => {
    const padded = cells.map((text, index) => {
      const width = widths[index] ?? 0;
      const cut = shorten(text, width, columns[index]?.elastic);
      const tone = toneOf(index);
      const blanks = " ".repeat(width - cut.length);
      const painted = tone === undefined ? cut : paint(screen, tone, cut);
      return columns[index]?.right === true ? blanks + painted : painted + blanks;
    });
    return `${" ".repeat(indent)}${padded.join(" ".repeat(GAP))}`.trimEnd();
  };
  return [
    line(
      columns.map(({ title }) => title),
      () => "dim",
    ),
    ...rows.map((row, at) => line(texts[at] ?? [], (index) => toneOf(row[index]))),
  ];
}

function textOf(cell: Cell): string {
  return typeof cell === "string" ? cell : cell.text;
}

function toneOf(cell: Cell | undefined): Tone | undefined {
  return typeof cell === "object" ? cell.tone : undefined;
}

function shorten(text: string, width: number, side: Column["elastic"]): string {
  if (text.length <= width) return text;
  return side === "start" ? `~${text.slice(text.length - width + 1)}` : `${text.slice(0, width - 1)}~`;
}

/** Shortens the widest elastic column, one character at a time, until the table fits. */
function shrink(columns: readonly Column[], natural: readonly number[], available: number): number[] {
  const widths = [...natural];
  const total = () => widths.reduce((sum, width) => sum + width, GAP * (widths.length - 1));
  while (total() > available) {
    let widest: number | undefined;
    for (const [index, { elastic }] of columns.entries()) {
      const width = widths[index] ?? 0;
      if (elastic !== undefined && width > LEAST && width > (widths[widest ?? -1] ?? 0)) widest = index;
    }
    if (widest === undefined) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return widths;
}

const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** A count in at most six characters, such as 99999, 120K, 14.9M. */
export function short(value: number): string {
  return value < 100_000 ? String(value) : COMPACT.format(value);
}

/** Breaks a text at blanks into lines of at most `width` characters; a longer word is a line of its own. */
export function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(/\s+/)) {
    const line = lines.at(-1);
    if (line !== undefined && line.length + 1 + word.length <= width)
      lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** A text below each other in the columns after the first `indent`, where its first line follows `head`. */
export function hang(
  { columns }: Pick<Screen, "columns">,
  indent: number,
  head: string,
  text: string,
): string[] {
  const lines = wrap(text, columns - indent);
  return lines.map((line, index) => `${index === 0 ? head : " ".repeat(indent)}${line}`);
}
