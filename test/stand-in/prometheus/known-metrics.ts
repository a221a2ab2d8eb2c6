import { readFileSync } from "node:fs";
import { join } from "node:path";
import { FAILURE_CODES } from "../../../src/failure/catalogue.ts";
import { CNI_DRA_METRICS } from "../../../src/observe/declared-cni-dra-metrics.ts";
import { IPAM_AGENT_METRICS, IPAM_CONTROLLER_METRICS } from "../../../src/observe/declared-ipam-metrics.ts";
import { type DeclaredMetric, INTERFACE_METRICS, METRICS } from "../../../src/observe/declared-metrics.ts";
import { readPromQl } from "./read-promql.ts";

/** Labels that Prometheus gives to what it scrapes, as docs/monitoring.md has it scrape. */
export const TARGET_LABELS: readonly string[] = ["node", "instance", "job", "namespace", "pod", "container"];

const PAGE = readFileSync(join(import.meta.dirname, "../../../docs/metrics.md"), "utf8");

/** Labels of every series that the daemon serves, by its name. */
const SERIES: ReadonlyMap<string, readonly string[]> = new Map([
  // Prometheus' own of each target.
  ["up", []] as const,
  ...Object.entries<DeclaredMetric>({
    ...METRICS,
    ...INTERFACE_METRICS,
    ...CNI_DRA_METRICS,
    ...IPAM_AGENT_METRICS,
    ...IPAM_CONTROLLER_METRICS,
  }).flatMap(([name, { type, labels }]) =>
    type === "histogram"
      ? [
          [`${name}_bucket`, [...labels, "le"]] as const,
          [`${name}_sum`, labels] as const,
          [`${name}_count`, labels] as const,
        ]
      : [[name, labels] as const],
  ),
]);

/** What a rule records: its name and its expression. */
export type Recorded = ReadonlyMap<string, string>;

/**
 * What an expression names that is not there: metrics, labels of them, and values of labels that have a fixed set.
 * @throws Error where it is no PromQL
 */
export function unknownIn(expr: string, recorded: Recorded): readonly string[] {
  const { selectors, groupings } = readPromQl(expr);
  const labels = labelsOf(expr, recorded);
  return [
    ...selectors.flatMap(({ metric, matchers }) => {
      const known = labelsOfSeries(metric, recorded);
      if (known === undefined) return [`metric ${metric}`];
      return matchers.flatMap(({ label, value }) => {
        if (!known.includes(label) && !TARGET_LABELS.includes(label)) return [`label ${label} of ${metric}`];
        const values = valuesOf(label, metric);
        const named = value.split("|").filter((one) => !one.startsWith("$"));
        return values === undefined
          ? []
          : named.filter((one) => !values.includes(one)).map((one) => `${label}="${one}" of ${metric}`);
      });
    }),
    ...groupings.filter((label) => !labels.includes(label)).map((label) => `label ${label}`),
  ];
}

/** All labels that the metrics of an expression have. */
export function labelsOf(expr: string, recorded: Recorded): readonly string[] {
  const { selectors } = readPromQl(expr);
  return [...TARGET_LABELS, ...selectors.flatMap(({ metric }) => labelsOfSeries(metric, recorded) ?? [])];
}

function labelsOfSeries(metric: string, recorded: Recorded): readonly string[] | undefined {
  const expr = recorded.get(metric);
  return expr === undefined ? SERIES.get(metric) : labelsOf(expr, recorded);
}

/** From docs/metrics.md, whose table a reader trusts as well. */
function valuesOf(label: string, metric: string): readonly string[] | undefined {
  if (label === "code") return ["ok", ...Object.keys(FAILURE_CODES)];
  if (label === "outcome" && !metric.startsWith("vhostuser_events")) return ["ok", "failed", "not-ready"];
  if (label === "direction") return ["from-guest", "to-guest"];
  const rows = [...PAGE.matchAll(/^\| `(\w+)`(?: of `(\w+)`)? \| (`.*?)(?:;.*)? \|$/gm)];
  const row = rows.find(([, of, only]) => of === label && (only === undefined || only === metric));
  return row === undefined || label === "size"
    ? undefined
    : [...(row[3] ?? "").matchAll(/`([\w-]+)`/g)].map(([, value = ""]) => value);
}
