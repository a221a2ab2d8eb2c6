import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse, stringify } from "yaml";
import { Failure } from "../../src/failure/failure.ts";
import { isUnpacked, PROMTOOL } from "../machine/packaged-program.ts";
import { runProgram } from "../machine/run-program.ts";
import { ALERT_CASES, type Series } from "./alert-cases.ts";

const RULES = resolve(import.meta.dirname, "../../deploy/chart/kube-vhostuser/files/prometheus-rules.yaml");

let directory: string;
let alerts: readonly { readonly alert: string; readonly labels: Readonly<Record<string, string>> }[];

beforeAll(async () => {
  if (!isUnpacked(PROMTOOL)) {
    throw new Failure({
      code: "part-missing",
      what: "promtool is not unpacked",
      where: PROMTOOL.path,
      fix: "npm test unpacks it from Debian's package prometheus",
    });
  }
  directory = await mkdtemp(join(tmpdir(), "kvu-rules-"));
  const { groups } = parse(await readFile(RULES, "utf8"));
  alerts = groups
    .flatMap(({ rules }: { rules: typeof alerts }) => rules)
    .filter(({ alert }: { alert?: string }) => alert !== undefined);
});
afterAll(() => rm(directory, { recursive: true }));

const FIRING = (alert: string) => `ALERTS{alertname="${alert}",alertstate="firing"}`;

/** One world of promtool's, with the alerts of a name that fire there at a minute. */
function world(
  alert: string,
  series: Series,
  minute: number,
  firing: readonly Readonly<Record<string, string>>[],
) {
  return {
    name: alert,
    interval: "1m",
    input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
    promql_expr_test: [
      {
        expr: FIRING(alert),
        eval_time: `${minute}m`,
        exp_samples: firing.map((labels) => ({ labels: seriesOf(labels), value: 1 })),
      },
    ],
  };
}

function seriesOf(labels: Readonly<Record<string, string>>): string {
  return `ALERTS{${Object.entries(labels)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
    .join(",")}}`;
}

describe("the Prometheus rules, by promtool", () => {
  it("are rules", async () => {
    const { stdout } = await runProgram(PROMTOOL.path, ["check", "rules", RULES]);
    expect(stdout).toMatch(/SUCCESS: \d+ rules found/);
  });

  it("have a case for every alert and no other", () => {
    expect(Object.keys(ALERT_CASES)).toEqual(alerts.map(({ alert }) => alert));
  });

  it("fire when they must, with their labels, and not when they must not", async () => {
    const tests = alerts.flatMap(({ alert, labels: { severity = "" } }) => {
      const { fires, at, labels, quiet } = ALERT_CASES[alert] ?? { fires: {}, at: 0, labels: {}, quiet: [] };
      const firing = { alertname: alert, alertstate: "firing", severity, ...labels };
      return [world(alert, fires, at, [firing]), ...quiet.map((series) => world(alert, series, at, []))];
    });
    const file = join(directory, "tests.yaml");
    await writeFile(file, stringify({ rule_files: [RULES], evaluation_interval: "1m", tests }));
    // It computes for minutes where other programs have the processors.
    const tested = runProgram(PROMTOOL.path, ["test", "rules", file], { limitMs: 600_000 });
    await expect(tested).resolves.toMatchObject({
      stdout: expect.stringContaining("SUCCESS"),
    });
  }, 700_000);
});
