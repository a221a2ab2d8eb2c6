/** One line of a graph. */
export interface Line {
  readonly name: string;
  /** Seconds since the epoch, and the value then. */
  readonly points: readonly (readonly [seconds: number, value: number])[];
}

/** What a graph is drawn into. */
export interface Frame {
  readonly width: number;
  readonly height: number;
  /** Seconds since the epoch. */
  readonly start: number;
  readonly end: number;
  /** Longer without a point is a gap. */
  readonly gapSeconds: number;
  /** Of the dashboard's units. */
  readonly unit: string;
}

const COLORS = ["#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0"];
const LEFT = 64;
const TOP = 30;
/** Below the graph: its times, and two lines of names. */
const BOTTOM = 56;

/** A graph of lines with its legend, as HTML. */
export function drawLines(lines: readonly Line[], frame: Frame): string {
  const { width, height, start, end, unit } = frame;
  const [across, up] = [width - LEFT - 14, height - TOP - BOTTOM];
  const values = lines.flatMap(({ points }) => points.map(([, value]) => value));
  const top = Math.max(...values, 0) || 1;
  const x = (seconds: number) => (LEFT + ((seconds - start) / (end - start)) * across).toFixed(1);
  const y = (value: number) => (TOP + up - (value / top) * up).toFixed(1);
  const paths = lines.map(({ points }, index) => {
    const steps = points.map(([seconds, value], at) => {
      const before = points[at - 1]?.[0] ?? Number.NEGATIVE_INFINITY;
      const isGap = seconds - before > frame.gapSeconds;
      return `${isGap ? "M" : "L"}${x(seconds)},${y(value)}`;
    });
    return `<path d="${steps.join("")}" stroke="${colorOf(index)}"/>`;
  });
  const levels = [0, top / 2, top].map(
    (value) =>
      `<line x1="${LEFT}" x2="${LEFT + across}" y1="${y(value)}" y2="${y(value)}"/><text x="${LEFT - 6}" y="${Number(y(value)) + 4}" text-anchor="end">${escapeHtml(withUnit(value, unit))}</text>`,
  );
  const times = [0.05, 0.5, 0.95].map((share) => {
    const seconds = start + share * (end - start);
    const clock = new Date(seconds * 1000).toISOString().slice(11, 16);
    return `<text x="${x(seconds)}" y="${TOP + up + 15}" text-anchor="middle">${clock}</text>`;
  });
  const nothing = `<text x="${width / 2}" y="${TOP + up / 2}" text-anchor="middle">no data</text>`;
  const names = lines.map(
    ({ name }, index) => `<span><i style="background:${colorOf(index)}"></i>${escapeHtml(name)}</span>`,
  );
  const drawing = [...levels, ...times, ...paths, ...(lines.length === 0 ? [nothing] : [])].join("");
  return `<svg width="${width}" height="${height}">${drawing}</svg><div class="names">${names.join("")}</div>`;
}

/** A value for people. */
export function withUnit(value: number, unit: string): string {
  switch (unit) {
    case "percentunit":
      return `${Number((value * 100).toPrecision(2))} %`;
    case "bytes":
      return `${Math.round(value / 2 ** 20)} MiB`;
    case "s":
      return value < 1 ? `${Number((value * 1000).toPrecision(2))} ms` : `${value.toFixed(1)} s`;
    default: {
      const suffix = { bps: "b/s", pps: "p/s", ops: "/s" }[unit] ?? "";
      const [size, prefix] = [[1e9, "G"] as const, [1e6, "M"] as const, [1e3, "k"] as const].find(
        ([least]) => Math.abs(value) >= least,
      ) ?? [1, ""];
      return `${Number((value / size).toPrecision(2))} ${prefix}${suffix}`.trimEnd();
    }
  }
}

/** Text within HTML. */
export function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}

function colorOf(index: number): string {
  return COLORS[index % COLORS.length] ?? "#fff";
}
