import type { Figure } from "./measurement.ts";

const HEADER = ["", "ours", "peer", "ratio", "aim", "holds"] as const;

/** The figures of one suite as a table for people, at most 100 columns wide. */
export function figuresTable(figures: readonly Figure[]): string {
  const rows = [HEADER, ...figures.map(cells)];
  const widths = HEADER.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, column) =>
          isNumeric(column) ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
        )
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function isNumeric(column: number): boolean {
  return column >= 1 && column <= 3;
}

function cells(figure: Figure): readonly string[] {
  const { name, unit, ours, peer, ratio, aim, holds } = figure;
  return [
    name,
    `${short(ours)} ${unit}`,
    peer === null ? "" : `${short(peer)} ${unit}`,
    ratio === null ? "" : ratio.toFixed(2),
    aim === "none" ? "" : aim,
    holds === null ? "" : holds ? "yes" : "NO",
  ];
}

/** Three significant digits, and never an exponent. */
function short(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
