import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePort } from "../machine/free-port.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { StandInKubelet } from "../stand-in/kubelet/kubelet.ts";

/** What a node has for the containers of our image. */
export interface ImageNode {
  /** Directory of the future root, on a mount that is shared as all of a node's are. */
  readonly root: string;
  /** Directory of the daemon's configuration. */
  readonly files: string;
  readonly kubelet: StandInKubelet;
  /** Of the probes, on this machine's loopback. */
  readonly port: number;
  /** Of the status page, likewise. */
  readonly pagePort: number;
}

/** A node with a kubelet, its directories, a shared mount as nodes have them, and the daemon's configuration. */
export async function startImageNode(run: LabRun): Promise<ImageNode> {
  const directory = await mkdtemp(join(run.directory, "n-"));
  const [root, files] = [join(directory, "vhu"), join(directory, "etc")];
  for (const each of [root, files]) await mkdir(each);
  const trace = run.journal.note({ kind: "mount", path: directory });
  run.cleanup.defer(`unmount ${directory}`, async () => {
    await runProgram("umount", ["--recursive", directory]);
    run.journal.strike(trace);
  });
  await runProgram("mount", ["--bind", directory, directory]);
  await runProgram("mount", ["--make-shared", directory]);
  const kubelet = await StandInKubelet.start({ root: join(directory, "kubelet") });
  run.cleanup.defer("stop kubelet", () => kubelet.stop());
  const [port, pagePort] = [await freePort(), await freePort()];
  await writeFile(
    join(files, "config.yaml"),
    JSON.stringify({
      node: "n",
      observe: { address: "127.0.0.1", port },
      statusPage: { enabled: true, port: pagePort },
      pools: {
        sockets: {
          ...{ resource: "vhostuser/sockets", capacity: 4 },
          // Nothing listens: that does not concern readiness.
          dataplane: { type: "ovs-dpdk", database: "/var/run/openvswitch/db.sock", bridge: "br-dpdk" },
        },
      },
    }),
  );
  return { root, files, kubelet, port, pagePort };
}
