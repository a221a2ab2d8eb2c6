import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import * as z from "zod";
import { INTERFACE_METRICS, METRICS } from "../../src/observe/declared-metrics.ts";
import { labelsOf, unknownIn } from "../stand-in/prometheus/known-metrics.ts";
import { readPromQl } from "../stand-in/prometheus/read-promql.ts";

const FILES = join(import.meta.dirname, "../../deploy/chart/kube-vhostuser/files");
const text = readFileSync(join(FILES, "dashboard.json"), "utf8");
const { groups } = parse(readFileSync(join(FILES, "prometheus-rules.yaml"), "utf8")) as {
  readonly groups: readonly {
    readonly rules: readonly { readonly record?: string; readonly expr: string }[];
  }[];
};
const recorded = new Map(
  groups.flatMap(({ rules }) =>
    rules.flatMap(({ record, expr }) => (record === undefined ? [] : [[record, expr]])),
  ),
);

/** The only data source: the one that the reader chooses. */
const datasource = z.strictObject({
  type: z.literal("prometheus"),
  uid: z.literal("$".concat("{datasource}")),
});
const size = z.number().int().min(1);
const place = z.number().int().min(0);
const gridPos = z
  .strictObject({ x: place, y: place, w: size.max(24), h: size })
  .refine(({ x, w }) => x + w <= 24, { error: "beyond the grid's 24 columns" });
const target = z.strictObject({
  refId: z.string().regex(/^[A-Z]$/),
  datasource,
  expr: z.string(),
  legendFormat: z.string(),
  instant: z.boolean().optional(),
  range: z.boolean().optional(),
  format: z.literal("table").optional(),
});
/** The part of Grafana's units that there is a use for; a name that Grafana does not know is shown after the number. */
const unit = z.enum(["none", "s", "bytes", "bps", "pps", "ops", "percentunit"]);
const row = z.strictObject({
  id: size,
  type: z.literal("row"),
  title: z.string(),
  collapsed: z.literal(false),
  gridPos,
  panels: z.array(z.never()),
});
const panel = z.strictObject({
  id: size,
  type: z.enum(["timeseries", "stat", "table"]),
  title: z.string().min(3),
  description: z.string().regex(/\.$/),
  datasource,
  gridPos,
  fieldConfig: z.strictObject({ defaults: z.looseObject({ unit }), overrides: z.array(z.looseObject({})) }),
  targets: z.array(target).min(1),
  options: z.looseObject({}),
  transformations: z
    .array(z.strictObject({ id: z.literal("organize"), options: z.looseObject({}) }))
    .optional(),
});
const variable = z.discriminatedUnion("type", [
  z.looseObject({
    name: z.literal("datasource"),
    type: z.literal("datasource"),
    query: z.literal("prometheus"),
  }),
  z.looseObject({
    name: z.string(),
    type: z.literal("query"),
    datasource,
    query: z.strictObject({ query: z.string(), refId: z.string() }),
    multi: z.literal(true),
    includeAll: z.literal(true),
    // A value of the author's own cluster would be everyone's default.
    current: z.strictObject({}),
    options: z.array(z.never()),
  }),
]);
const dashboard = z.looseObject({
  uid: z.string().regex(/^[\w-]{1,40}$/),
  title: z.string(),
  schemaVersion: z.number().int().min(36),
  panels: z.array(z.discriminatedUnion("type", [row, panel])),
  templating: z.strictObject({ list: z.array(variable) }),
});

const { panels, templating } = dashboard.parse(JSON.parse(text));
const drawn = panels.flatMap((one) => (one.type === "row" ? [] : [one]));
const variables = templating.list.map(({ name }) => name);
/** Grafana puts variables in before Prometheus sees an expression. */
const filled = (expr: string) => expr.replaceAll("$__rate_interval", "5m");

describe("the Grafana dashboard", () => {
  it("has no id twice, and no two panels in one place", () => {
    const ids = panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    const overlapping = panels.flatMap(({ title, gridPos: a }, index) =>
      panels
        .slice(index + 1)
        .filter(({ gridPos: b }) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h)
        .map((other) => `${title} and ${other.title}`),
    );
    expect(overlapping).toEqual([]);
  });

  it("has no title twice", () => {
    const titles = drawn.map(({ title }) => title);
    expect(titles.filter((title, index) => titles.indexOf(title) !== index)).toEqual([]);
  });

  it("queries only metrics, labels and values that exist", () => {
    const unknown = drawn.flatMap(({ title, targets }) =>
      targets.flatMap(({ expr }) => unknownIn(filled(expr), recorded).map((what) => `${title}: ${what}`)),
    );
    expect(unknown).toEqual([]);
  });

  it("names series by labels that they have", () => {
    const wrong = drawn.flatMap(({ title, targets }) =>
      targets.flatMap(({ expr, legendFormat }) => {
        const { groupings } = readPromQl(filled(expr));
        const known = /\bby \(/.test(expr) ? groupings : labelsOf(filled(expr), recorded);
        const named = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = ""]) => label);
        return named.filter((label) => !known.includes(label)).map((label) => `${title}: ${label}`);
      }),
    );
    expect(wrong).toEqual([]);
  });

  it("offers nodes, pools, namespaces and pods, and every query uses the chosen nodes", () => {
    expect(variables).toEqual(["datasource", "node", "pool", "namespace", "pod"]);
    const wrong = drawn.flatMap(({ title, targets }) =>
      targets
        .flatMap(({ expr }) => readPromQl(filled(expr)).selectors)
        .filter(({ matchers }) => !matchers.some(({ label, value }) => label === "node" && value === "$node"))
        .map(({ metric }) => `${title}: ${metric}`),
    );
    expect(wrong).toEqual([]);
    const used = [...text.matchAll(/\$\{?(\w+)/g)].map(([, name = ""]) => name);
    expect([...new Set(used)].filter((name) => !name.startsWith("__")).sort()).toEqual([...variables].sort());
  });

  it("queries variables from series that exist", () => {
    const asked = templating.list.flatMap((one) => (one.type === "query" ? [one.query.query] : []));
    for (const query of asked) {
      const [, expr = "", label = ""] = /^label_values\((.*), (\w+)\)$/.exec(query) ?? [];
      expect(unknownIn(expr, recorded), query).toEqual([]);
      expect(labelsOf(expr, recorded), query).toContain(label);
    }
  });

  it("shows every metric but those that others include", () => {
    const others = [
      // A panel shows a share, what is free, or what a rule recorded of them.
      ...["vhostuser_hugepages"],
      "vhostuser_pool_devices_in_use",
      ...["vhostuser_cni_request_duration_seconds", "vhostuser_reconcile_pass_duration_seconds"],
      // It fires an alert or is 1.
      "vhostuser_root_usable",
      // For a closer inspection.
      ...["vhostuser_kubelet_registrations_total", "vhostuser_cni_unknown_keys_total", "process_open_fds"],
      ...["nodejs_eventloop_lag_seconds", "vhostuser_guest_address_requests_total"],
    ];
    const metrics = Object.keys({ ...METRICS, ...INTERFACE_METRICS });
    const shown = drawn.flatMap(({ targets }) =>
      targets.flatMap(({ expr }) => readPromQl(filled(expr)).selectors.map(({ metric }) => metric)),
    );
    const missing = metrics.filter(
      (name) => !shown.some((metric) => metric.replace(/_(bucket|count)$/, "") === name),
    );
    expect(missing.sort()).toEqual(others.sort());
  });
});
