// Draws the Grafana dashboard without Grafana: its panels, where they lie, with what a Prometheus answers to its queries.
// For the picture in docs/monitoring.md:
//   node scripts/preview-dashboard.ts --prometheus http://127.0.0.1:9090 --minutes 10 --out docs/images/dashboard-preview.png
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import * as z from "zod";
import { programOf, wholeNumber } from "../src/command-line/program.ts";
import { smallerPng } from "../test/browser/smaller-png.ts";
import { drawLines, escapeHtml, type Line, withUnit } from "./preview/draw-panel.ts";

const DASHBOARD = resolve(import.meta.dirname, "../deploy/chart/kube-vhostuser/files/dashboard.json");
const WIDTH = 1440;
const COLUMN = WIDTH / 24;
const CELL = 30;
const HEAD = 70;
const STEP_SECONDS = 5;
const STAT_COLORS: Readonly<Record<string, string>> = { green: "#3f8f4f", orange: "#c77c1e", red: "#b3372f" };
const STYLE = `
body { margin: 0; background: #111217; color: #ccccdc; font: 11px sans-serif }
h1 { font-size: 18px; margin: 0; padding: 12px 14px 2px } p { margin: 0 14px; color: #9a9aa8 }
h2 { position: absolute; margin: 0; font-size: 14px; padding-top: 6px; box-sizing: border-box }
h3 { position: absolute; margin: 6px 8px; font-size: 12px }
.panel { position: absolute; background: #181b1f; border: 1px solid #25282d; box-sizing: border-box; overflow: hidden }
.stat b { position: absolute; inset: 44% 0 0; text-align: center; font-size: 26px; color: #fff }
svg { position: absolute; left: 0 } path { fill: none; stroke-width: 1.4 } line { stroke: #333a45 } text { fill: #9a9aa8; font-size: 10px }
.names { position: absolute; bottom: 3px; left: 8px; right: 8px; height: 26px; overflow: hidden }
.names span { margin-right: 9px; white-space: nowrap; display: inline-block }
.names i { display: inline-block; width: 10px; height: 3px; margin-right: 4px; vertical-align: middle }
table { margin: 28px 8px; border-collapse: collapse } td, th { text-align: left; padding: 4px 30px 4px 0 }`;

const panelSchema = z.object({
  type: z.enum(["row", "stat", "table", "timeseries"]),
  title: z.string(),
  gridPos: z.object({ x: z.number(), y: z.number(), w: z.number(), h: z.number() }),
  fieldConfig: z
    .object({
      defaults: z.object({
        unit: z.string(),
        thresholds: z
          .object({ steps: z.array(z.object({ color: z.string(), value: z.number().nullable() })) })
          .optional(),
      }),
    })
    .optional(),
  targets: z.array(z.object({ expr: z.string(), legendFormat: z.string() })).default([]),
});
type Panel = z.infer<typeof panelSchema>;

const sample = z.tuple([z.number(), z.string().transform(Number)]);
const answerSchema = z.object({
  data: z.object({
    result: z.array(
      z.object({
        metric: z.record(z.string(), z.string()),
        value: sample.optional(),
        values: z.array(sample).default([]),
      }),
    ),
  }),
});
type Answer = z.infer<typeof answerSchema>["data"]["result"];

interface Options {
  readonly prometheus: string;
  readonly minutes: number;
  readonly out: string;
}

const options = programOf(
  "node scripts/preview-dashboard.ts",
  "Draws the Grafana dashboard without Grafana, with what a Prometheus answers to its queries.",
)
  .option("--prometheus <url>", "where Prometheus is", "http://127.0.0.1:9090")
  .option("--minutes <number>", "how long the time axis is", wholeNumber, 10)
  .option("--out <file>", "the picture", "dashboard-preview.png")
  .parse()
  .opts<Options>();
const end = Math.floor(Date.now() / 1000);
const start = end - options.minutes * 60;

/** With all that the variables offer. */
async function ask(expr: string, isRange: boolean): Promise<Answer> {
  const query = expr.replaceAll("$__rate_interval", "30s").replace(/\$\w+/g, ".*");
  const range = isRange ? { start: `${start}`, end: `${end}`, step: `${STEP_SECONDS}` } : { time: `${end}` };
  const path = `/api/v1/query${isRange ? "_range" : ""}?${new URLSearchParams({ query, ...range })}`;
  const response = await fetch(new URL(path, options.prometheus));
  if (!response.ok) throw new Error(`${query}: ${await response.text()}`);
  return answerSchema.parse(await response.json()).data.result;
}

async function linesOf({ targets }: Panel): Promise<readonly Line[]> {
  const answers = await Promise.all(
    targets.map(async ({ expr, legendFormat }) =>
      (await ask(expr, true)).map(({ metric, values }) => ({
        name: legendFormat.replace(/\{\{(\w+)\}\}/g, (_, label: string) => metric[label] ?? ""),
        points: values.filter(([, value]) => Number.isFinite(value)),
      })),
    ),
  );
  return answers.flat();
}

async function draw(panel: Panel): Promise<string> {
  const { type, title, gridPos, fieldConfig, targets } = panel;
  const [width, height] = [gridPos.w * COLUMN - 6, gridPos.h * CELL - 6];
  const box = `left:${gridPos.x * COLUMN + 3}px;top:${gridPos.y * CELL + HEAD}px;width:${width}px;height:${height}px`;
  const head = `<h3>${escapeHtml(title)}</h3>`;
  const { unit = "none", thresholds } = fieldConfig?.defaults ?? {};
  const [first] = targets;
  switch (type) {
    case "row":
      return `<h2 style="${box}">${escapeHtml(title)}</h2>`;
    case "stat": {
      const [answer] = await ask(first?.expr ?? "", false);
      const value = answer?.value?.[1] ?? Number.NaN;
      const step = thresholds?.steps.findLast((one) => one.value === null || value >= one.value);
      const color = STAT_COLORS[step?.color ?? ""] ?? "none";
      return `<div class="panel stat" style="${box};background:${color}">${head}<b>${withUnit(value, unit)}</b></div>`;
    }
    case "table": {
      const columns = ["node", "version", "node_version", "instance"];
      const rows = (await ask(first?.expr ?? "", false)).map(
        ({ metric }) =>
          `<tr>${columns.map((name) => `<td>${escapeHtml(metric[name] ?? "")}</td>`).join("")}</tr>`,
      );
      const names = `<tr>${columns.map((name) => `<th>${name}</th>`).join("")}</tr>`;
      return `<div class="panel" style="${box}">${head}<table>${names}${rows.join("")}</table></div>`;
    }
    case "timeseries": {
      const frame = { width, height, start, end, gapSeconds: 2.5 * STEP_SECONDS, unit };
      return `<div class="panel" style="${box}">${head}${drawLines(await linesOf(panel), frame)}</div>`;
    }
  }
}

const { panels } = z
  .object({ panels: z.array(panelSchema) })
  .parse(JSON.parse(await readFile(DASHBOARD, "utf8")));
const height = HEAD + 10 + CELL * Math.max(...panels.map(({ gridPos: { y, h } }) => y + h));
const drawn = await Promise.all(panels.map(draw));
const page = `<!doctype html><meta charset="utf-8"><style>${STYLE}</style><h1>kube-vhostuser</h1>
<p>The dashboard's panels and queries with what Prometheus answers, drawn by scripts/preview-dashboard.ts and not by Grafana.</p>
${drawn.join("\n")}`;
const scratch = await mkdtemp(join(tmpdir(), "kube-vhostuser-preview-"));
try {
  const file = join(scratch, "page.html");
  await writeFile(file, page);
  await promisify(execFile)("chromium", [
    ...["--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"],
    ...[`--user-data-dir=${join(scratch, "profile")}`, `--window-size=${WIDTH},${height}`],
    ...[`--screenshot=${resolve(options.out)}`, `file://${file}`],
  ]);
  await writeFile(options.out, smallerPng(await readFile(options.out)));
} finally {
  await rm(scratch, { recursive: true, force: true });
}
