import { join } from "node:path";
import { reserveHugepages } from "../machine/hugepages.ts";
import { openLabRun } from "../machine/lab-run.ts";
import { endOnSignals } from "../machine/signals.ts";
import { startOvsdbServer } from "./ovsdb-server.ts";
import { startPod } from "./pod.ts";

// A run that takes one of everything and then waits to be interrupted: the program of interruption.test.ts.
const run = await openLabRun({ narrator: { say: (line) => process.stderr.write(`${line}\n`) } });
endOnSignals(run);
const hugepages = await reserveHugepages(run, 2048, 5);
const pod = await startPod(run, "a");
const container = await pod.startContainer({
  name: "main",
  // A grandchild that detaches itself, as QEMU does.
  command: ["/bin/sh", "-c", "trap 'exit 0' TERM; setsid sleep 1000 & while :; do sleep 1000 & wait; done"],
});
const database = await startOvsdbServer(run, { directory: join(run.directory, "ovs") });
const pids = [container.hostPid, database.pid()];
process.stdout.write(`${JSON.stringify({ name: run.name, directory: run.directory, hugepages, pids })}\n`);
setInterval(() => undefined, 1000);
