import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { EVENT_REASONS } from "../../src/observe/events/event.ts";
import { labelsOf, TARGET_LABELS, unknownIn } from "../stand-in/prometheus/known-metrics.ts";
import { readPromQl } from "../stand-in/prometheus/read-promql.ts";

interface Rule {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

const TOP = join(import.meta.dirname, "../..");
const read = (file: string) => readFileSync(join(TOP, file), "utf8");
const { groups } = parse(read("deploy/chart/kube-vhostuser/files/prometheus-rules.yaml")) as {
  readonly groups: readonly { readonly rules: readonly Rule[] }[];
};
const rules = groups.flatMap((group) => group.rules);
const recorded = new Map(rules.flatMap(({ record, expr }) => (record === undefined ? [] : [[record, expr]])));
const alerts = rules.flatMap((rule) => (rule.alert === undefined ? [] : [{ ...rule, alert: rule.alert }]));
const runbooks = read("docs/runbooks.md");

describe("the Prometheus rules", () => {
  it("name only metrics, labels and values that exist", () => {
    expect(rules.flatMap(({ expr }) => unknownIn(expr, recorded))).toEqual([]);
  });

  it("are rejected where they name others", () => {
    const wrong = [
      "vhostuser_pool_device",
      'vhostuser_ports{stat="attaching"}',
      'vhostuser_ports{state="gone"}',
      'vhostuser_cni_requests_total{code!~"ok|bussy"}',
      "sum by (pools) (vhostuser_ports)",
      "vhostuser_cni_request_duration_seconds",
    ].flatMap((expr) => unknownIn(expr, recorded));
    expect(wrong).toEqual([
      "metric vhostuser_pool_device",
      "label stat of vhostuser_ports",
      'state="gone" of vhostuser_ports',
      'code="bussy" of vhostuser_cni_requests_total',
      "label pools",
      "metric vhostuser_cni_request_duration_seconds",
    ]);
  });

  it.each(alerts)("$alert has a severity, a summary, a description and a runbook", (rule) => {
    const { alert, labels = {}, annotations = {} } = rule;
    expect(["critical", "warning", "info"]).toContain(labels["severity"]);
    expect(annotations["summary"]).toMatch(/^\S.{10,120}[^.]$/);
    expect(annotations["description"]).toMatch(/\.$/);
    expect(annotations["runbook_url"]).toMatch(new RegExp(`/docs/runbooks\\.md#${alert.toLowerCase()}$`));
  });

  it.each(alerts)("$alert uses only labels that it has", ({ expr, annotations = {} }) => {
    const { groupings } = readPromQl(expr);
    // What `by` leaves is what there is; an expression that matches `on` keeps its left side's labels.
    const isGrouped = /\bby \(/.test(expr);
    const known = isGrouped ? groupings : labelsOf(expr, recorded);
    const spoken = Object.values(annotations).flatMap((text) =>
      [...text.matchAll(/\$labels\.(\w+)/g)].map(([, label = ""]) => label),
    );
    expect(spoken.filter((label) => !known.includes(label))).toEqual([]);
    // The controller of addresses is on any node, and its alerts are about the cluster.
    const place = expr.includes("vhostuser_ipam_") ? "namespace" : "node";
    expect(known.filter((label) => TARGET_LABELS.includes(label))).toContain(place);
  });

  it("have a section in docs/runbooks.md for every alert, in the same order, and no other", () => {
    const sections = [...runbooks.matchAll(/^### (\w+)$/gm)].map(([, name]) => name);
    expect(sections).toEqual(alerts.map(({ alert }) => alert));
  });

  it("have runbooks that say what it means, what users notice, how to confirm it, the cure, and whom to page", () => {
    const sections = runbooks.split(/^### /m).slice(1);
    const heads = ["Means", "Users", "Confirm", "Cure", "Page"];
    const lacking = sections.flatMap((section) =>
      heads
        .filter((head) => !section.includes(`**${head}:**`))
        .map((head) => `${section.split("\n")[0]}: ${head}`),
    );
    expect(lacking).toEqual([]);
  });

  it("cover each code with which ADD fails once: as the node's fault or as the network's", () => {
    const codesOf = (name: string) => {
      const expr = alerts.find(({ alert }) => alert === name)?.expr ?? "";
      return readPromQl(expr).selectors.flatMap(({ matchers }) =>
        matchers.flatMap(({ label, value }) => (label === "code" ? value.split("|") : [])),
      );
    };
    expect(codesOf("VhostuserCniFails")).toEqual([
      "ok",
      "busy",
      "superseded",
      ...codesOf("VhostuserNetworkRefused"),
    ]);
  });
});

describe("docs/monitoring.md", () => {
  const page = read("docs/monitoring.md");

  it("has examples that are YAML", () => {
    const blocks = [...page.matchAll(/^```yaml\n(.*?)^```/gms)].map(([, text = ""]) => text);
    expect(blocks.length).toBeGreaterThan(4);
    for (const block of blocks) expect(parse(block)).toBeTypeOf("object");
  });

  it("explains every event that is posted, and no other", () => {
    const explained = [
      ...page.matchAll(/^\| the (?:pod|node|pool|block|claim|VMI|webhook) \| (\w+) \| `(\w+)`/gm),
    ].map(([, type, reason]) => `${type} ${reason}`);
    const posted = Object.entries(EVENT_REASONS).map(([reason, type]) => `${type} ${reason}`);
    expect(posted.sort()).toEqual(explained.sort());
  });

  it("names alerts that exist", () => {
    const named = [...page.matchAll(/`(Vhostuser\w+)`/g)].map(([, name]) => name);
    expect(named.filter((name) => !alerts.some(({ alert }) => alert === name))).toEqual([]);
  });
});
