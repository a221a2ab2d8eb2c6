import { defineConfig } from "vitest/config";

// The tests run on the Node that ships; `npm test` takes care of it.
if (!process.version.startsWith("v24.")) {
  throw new Error(
    `the tests need Node 24, this is ${process.version}; use npm test, or put node_modules/.bin first in PATH`,
  );
}

// For machines that are several times slower than ours, or stand still for a while: who waits for so long waits in vain.
const PATIENCE = { testTimeout: 300_000, hookTimeout: 300_000, expect: { poll: { timeout: 30_000 } } };
/** Of `npm run test:cluster -- --kubevirt`. */
const KUBEVIRT_TEST = "test/cluster/kubevirt.test.ts";

// Three suites: unit (no root, no installed parts), integration (one real part: ovsdb-server,
// OVS-DPDK, libvirt) and lab (the whole flow on two nodes). Three more need what Debian does not have and are not
// part of `npm test`: vpp (scripts/test-vpp.ts), cluster and kubevirt (scripts/test-cluster.ts). Never retried: a flaky test is a bug.
export default defineConfig({
  test: {
    retry: 0,
    // A process for several files, each of which gives back what it opened: starting one for each file and importing
    // everything again would be half of the unit tests' time.
    isolate: false,
    projects: [
      {
        test: {
          name: "unit",
          include: ["src/**/*.test.ts", "scripts/**/*.test.ts", "test/rules/*.test.ts"],
          ...PATIENCE,
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        test: {
          name: "integration",
          include: ["test/integration/**/*.test.ts"],
          // Once for all files: some of them run side by side, and none must meet a program half written.
          globalSetup: ["test/machine/build-programs.ts"],
          fileParallelism: false,
          ...PATIENCE,
        },
      },
      {
        test: {
          name: "vpp",
          include: ["test/vpp/**/*.test.ts"],
          fileParallelism: false,
          ...PATIENCE,
        },
      },
      {
        test: {
          name: "cluster",
          include: ["test/cluster/**/*.test.ts"],
          exclude: [KUBEVIRT_TEST],
          fileParallelism: false,
          ...PATIENCE,
          testTimeout: 900_000,
        },
      },
      {
        test: {
          name: "kubevirt",
          include: [KUBEVIRT_TEST],
          fileParallelism: false,
          ...PATIENCE,
        },
      },
      {
        test: {
          name: "lab",
          include: ["test/lab/**/*.test.ts"],
          globalSetup: ["test/machine/build-programs.ts"],
          fileParallelism: false,
          ...PATIENCE,
        },
      },
    ],
  },
});
