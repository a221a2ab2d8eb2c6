import { paint, type Screen, type Tone } from "./screen.ts";

/** A column of a table. */
export interface Column {
  readonly title: string;
  /** Numbers stand to the right. */
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

/** Takes what is too much from the widest elastic column, one character at a time. */
function shrink(columns: readonly Column[], natural: readonly number[], room: number): number[] {
  const widths = [...natural];
  const total = () => widths.reduce((sum, width) => sum + width, GAP * (widths.length - 1));
  while (total() > room) {
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
