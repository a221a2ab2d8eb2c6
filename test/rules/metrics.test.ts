import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { CNI_DRA_METRICS } from "../../src/observe/declared-cni-dra-metrics.ts";
import { IPAM_AGENT_METRICS, IPAM_CONTROLLER_METRICS } from "../../src/observe/declared-ipam-metrics.ts";
import { INTERFACE_METRICS, METRICS } from "../../src/observe/declared-metrics.ts";

const page = readFileSync(join(import.meta.dirname, "../../docs/metrics.md"), "utf8");

const ALL = {
  ...METRICS,
  ...INTERFACE_METRICS,
  ...CNI_DRA_METRICS,
  ...IPAM_AGENT_METRICS,
  ...IPAM_CONTROLLER_METRICS,
};

describe("docs/metrics.md", () => {
  it("has a row for every metric and no other, in the same order, with its help", () => {
    const rows = [...page.matchAll(/^\| `(\w+)` \| (counter|gauge|histogram) \| (.*?) \| (.*?) \| .*\|$/gm)];
    expect(rows.map(([, name, type, labels, help]) => ({ name, type, labels, help }))).toEqual(
      Object.entries(ALL).map(([name, { type, labels, help }]) => ({
        name,
        type,
        labels: labels.map((label) => `\`${label}\``).join(", "),
        help,
      })),
    );
  });

  it("names only metrics that exist", () => {
    const known = Object.keys(ALL);
    const named = [...page.matchAll(/`((?:vhostuser|process|nodejs)_\w+)`/g)].map(([, name = ""]) => name);
    expect(named.filter((name) => !known.includes(name))).toEqual([]);
  });
});
