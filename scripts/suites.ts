import { join } from "node:path";

/** A part of the tests: what to call it, and what vitest is told. */
export interface Suite {
  readonly what: string;
  readonly args: readonly string[];
}

const suite = (what: string): Suite => ({ what, args: ["--project", what] });

/** One after the other: guests and a polling switch side by side would starve each other on a small machine. */
export const SUITES: readonly Suite[] = [suite("unit"), suite("integration"), suite("lab")];

/**
 * Files of the integration suite that mostly wait (for what is abandoned to be old enough, for a peer to give up) or
 * work in one process at a time, and have no guest, no traffic and no bound on processor or memory in them. Each has a
 * run of its own, and with it directories, namespaces, hugepages and a switch.
 */
export const SIDE_BY_SIDE: readonly string[] = [
  ...["chart", "cni-conformance", "cni-ipam", "cni-ipam-crash", "ctl-doctor"],
  ...["daemon-crash", "daemon-disturbed", "daemon-upgrade", "device-plugin", "device-plugin-numa", "image"],
  ...["isolation", "isolation-root", "ovs-contract", "ovs-cut-connection", "ovs-database", "ovs-dataplane"],
  ...["ovs-port-security", "ovs-port-settings", "ovs-secured-port", "ovs-switch-sockets", "ovs-without-dpdk"],
  ...["overlays", "overtaken-add", "prometheus-rules"],
  ...["shim-arm64", "shim-build", "shim-sanitized", "sidecar-corpus", "sidecar-domain"],
  ...["status-page", "status-page-browser"],
].map((name) => join("test/integration", `${name}.test.ts`));

/** Half a gibibyte of hugepages each: no more than the lab with its two switches and its guests takes. */
const AT_ONCE = 3;

/**
 * The same as {@link SUITES} in less time: unit tests on all processors, and the integration suite in two parts. These
 * first two may have something beside them.
 */
export const BESIDE_SOAK: readonly Suite[] = [
  { what: "unit", args: ["--project", "unit", "--maxWorkers=100%"] },
  {
    what: `integration, ${AT_ONCE} files at a time`,
    args: ["--project", "integration", "--fileParallelism", `--maxWorkers=${AT_ONCE}`, ...SIDE_BY_SIDE],
  },
];

/** The rest of {@link SUITES}: figures, bounds on processor and memory, and guests with traffic. */
export const ALONE: readonly Suite[] = [
  {
    what: "integration, file by file",
    args: ["--project", "integration", ...SIDE_BY_SIDE.map((file) => `--exclude=${file}`)],
  },
  suite("lab"),
];
