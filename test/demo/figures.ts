import type { StepTime } from "../../scripts/narrator.mjs";

/** What the demo measured and what it left, which is nothing. */
export interface DemoFigures {
  /** Between the two VMs, before the migration. */
  readonly pings: { readonly sent: number; readonly lost: number };
  /** Frames that testpmd sent, and those of them that the VM counted. */
  readonly testpmd: { readonly tx: number; readonly rx: number };
  readonly migration: {
    /** The hypervisor's own downtime, as libvirt says. */
    readonly downtimeMs: number;
    /** Longest time without an answer that the pinging VM saw. */
    readonly outageMs: number;
    readonly sent: number;
    readonly lost: number;
  };
  readonly left: {
    readonly ports: number;
    readonly directories: number;
    readonly records: number;
    readonly processes: number;
    readonly hugepages: number;
  };
  /** A file with the status page of the node where the VMs and the pod were. */
  readonly picture: string;
  readonly steps: readonly StepTime[];
}

/** The figures as a table for people, below 80 columns. */
export function figuresTable({ pings, testpmd, migration, left }: DemoFigures): string {
  const network = migration.outageMs - migration.downtimeMs;
  const rows: readonly (readonly [string, string])[] = [
    ["pings between the VMs", `${pings.sent} sent, ${pings.lost} lost`],
    ["pings during live migration", `${migration.sent} sent, ${migration.lost} lost (one every 10 ms)`],
    ["downtime by libvirt", `${migration.downtimeMs} ms`],
    ["outage that the peer saw", `${migration.outageMs} ms (${network} ms of it the network's)`],
    ["frames from the DPDK pod", `${testpmd.tx} sent, ${testpmd.rx} counted in the VM`],
    [
      "left behind",
      Object.entries(left)
        .map(([what, count]) => `${count} ${what}`)
        .join(", "),
    ],
  ];
  const width = Math.max(...rows.map(([label]) => label.length));
  return rows.map(([label, value]) => `  ${label.padEnd(width)}  ${value}`).join("\n");
}
