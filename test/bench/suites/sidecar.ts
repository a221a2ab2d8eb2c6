import { setTimeout as delay } from "node:timers/promises";
import type { LabRun } from "../../machine/lab-run.ts";
import type { Bench } from "../bench-suite.ts";
import { atMost, type Measurement, type SuiteDefinition } from "../measurement.ts";
import { SidecarProcess } from "../sidecar-process.ts";

/** It gives memory back a second after a call, which takes its time with a fifth of a processor. */
const SETTLE_MS = 4_000;
/** A period of the kernel's quota: between two calls KubeVirt defines the domain and reads it back. */
const PAUSE_MS = 100;
const CALLS = 10_000;
/** So many calls until the heap has its size. */
const SETTLING = 1_000;

/** What the measurements share. */
export interface SidecarRig {
  readonly bench: Bench;
  /** It has its limits, and answers one measurement after the other. */
  readonly warm: SidecarProcess;
  /** A fresh one each time. */
  next(): Promise<SidecarProcess>;
}

/** A sidecar within its limits. */
export async function openSidecarRig(bench: Bench): Promise<SidecarRig> {
  let started = 0;
  const start = (run: LabRun) => SidecarProcess.start(run, `sidecar-${started++}`);
  const warm = await start(bench.run);
  bench.run.cleanup.defer("end the warm sidecar", () => warm[Symbol.asyncDispose]());
  return { bench, warm, next: () => start(bench.run) };
}

const MB = 1e6;

/** The bundled sidecar in a control group of 64 MB and 200 millicores, as KubeVirt makes it. */
export const sidecarSuite: SuiteDefinition<SidecarRig> = {
  name: "sidecar",
  peer: null,
  measurements: [
    {
      name: "start, until Info is answered",
      unit: "ms",
      repetitions: 20,
      warmUp: 1,
      ours: async ({ next }) => {
        await using sidecar = await next();
        return sidecar.readyMs;
      },
      aim: atMost(700, "<= 700 ms"),
      aimP95: atMost(800, "<= 800 ms"),
    },
    {
      name: "OnDefineDomain, the first, 16 interfaces",
      unit: "ms",
      repetitions: 10,
      warmUp: 1,
      ours: async ({ next }) => {
        await using sidecar = await next();
        return await sidecar.define(16);
      },
      aim: atMost(1_000, "< 1 s"),
    },
    defines("OnDefineDomain, 8 interfaces", 8),
    defines("OnDefineDomain, 8 interfaces by DRA", 8, "dra"),
    defines("OnDefineDomain, 16 interfaces", 16),
    {
      name: "memory of its own, some seconds after these calls",
      unit: "MB",
      repetitions: 1,
      shows: "median",
      ours: async ({ warm, bench }) => {
        await delay(bench.isTrial === true ? 0 : SETTLE_MS);
        return (await warm.cgroup.memoryNow()).anonymousBytes / MB;
      },
      aim: atMost(25, "< 25 MB"),
    },
    {
      name: "pages of files charged to it",
      unit: "MB",
      repetitions: 1,
      shows: "median",
      ours: async ({ warm }) => (await warm.cgroup.memoryNow()).fileBytes / MB,
    },
    {
      name: "the most that its group ever held",
      unit: "MB",
      repetitions: 1,
      shows: "median",
      ours: async ({ warm }) => (await warm.cgroup.peakBytes()) / MB,
      aim: atMost(64, "<= 64 MB"),
    },
    {
      name: `growth of its own memory over ${CALLS} calls`,
      unit: "MB",
      repetitions: 1,
      shows: "median",
      ours: growthOverCalls,
      aim: atMost(2, "<= 2 MB"),
    },
  ],
};

/** Each on a connection of its own, as KubeVirt calls. */
function defines(name: string, interfaces: number, sockets?: "dra"): Measurement<SidecarRig> {
  return {
    name,
    unit: "ms",
    repetitions: 100,
    warmUp: 20,
    ours: async ({ warm, bench }) => {
      await delay(bench.isTrial === true ? 0 : PAUSE_MS);
      return await warm.define(interfaces, sockets);
    },
    aim: atMost(10, "<= 10 ms"),
    aimP95: atMost(25, "<= 25 ms"),
  };
}

/** With a whole processor: at 200 millicores it would take minutes, and memory does not depend on time. */
async function growthOverCalls({ bench }: SidecarRig): Promise<number> {
  const { run, isTrial } = bench;
  const [settling, calls] = isTrial === true ? [10, 100] : [SETTLING, CALLS];
  await using sidecar = await SidecarProcess.start(run, "sidecar-growth", { cpu: false });
  const defineOften = async (times: number) => {
    for (let call = 0; call < times; call++) {
      run.cleanup.signal.throwIfAborted();
      await sidecar.define(8);
    }
    await delay(isTrial === true ? 0 : SETTLE_MS);
    return (await sidecar.cgroup.memoryNow()).anonymousBytes / MB;
  };
  const before = await defineOften(settling);
  return (await defineOften(calls)) - before;
}
