import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { type ClusterNode, SOCKETS } from "../cluster/cluster-node.ts";
import { type Container, type Pod, startPod } from "../lab/pod.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import type { SelectedNetwork } from "../stand-in/multus/network.ts";
import type { NetworkStatus } from "../stand-in/multus/network-status.ts";

/** A pod with an allocation and a network as `net1`. */
export interface AttachedPod {
  readonly name: string;
  /** Its allocation's directory as the node sees it. */
  readonly hostDirectory: string;
  /** The same as the pod sees it. */
  readonly directory: string;
  /** Device that kubelet gave to it. */
  readonly device: string;
  /** What Multus tells of its networks, in the pod's annotation. */
  readonly networkStatus: readonly NetworkStatus[];
  /** Runs JavaScript in a container of it, as a user without capabilities; `say(text)` writes a line to its log. */
  run(name: string, script: string, uid?: number): Promise<Container>;
  /** The same, until it ends; what it said. */
  runToEnd(name: string, script: string, uid?: number): Promise<string>;
  /** Container, network and pod go, in kubelet's order; the second time nothing happens. */
  remove(): Promise<void>;
}

const PRELUDE = `
  process.on("SIGTERM", () => process.exit());
  const fs = require("node:fs"), net = require("node:net"), say = (text) => fs.writeSync(1, text + "\\n");
  const tried = (what) => { try { return String(what() ?? "done") } catch (error) { return error.code } };`;

/** kubelet admits the pod, and Multus attaches its network. */
export async function attachPod(
  run: LabRun,
  node: ClusterNode,
  network: SelectedNetwork,
  name: string,
): Promise<AttachedPod> {
  const admission = await node.kubelet.admitPod({
    namespace: "tests",
    name,
    containers: [{ name: "main", resources: { [SOCKETS]: 1 } }],
  });
  if (admission.phase === "Failed") throw new Error(`pod ${name}: ${admission.message}`);
  const [admitted] = admission.containers;
  const [mount] = admitted?.mounts ?? [];
  if (mount === undefined) throw new Error(`pod ${name} has no mount`);
  const pod: Pod = await startPod(run, name);
  const sandbox = {
    pod: { namespace: "tests", name, uid: admission.uid },
    containerId: randomBytes(32).toString("hex"),
    netns: pod.network.path,
  };
  const remove = async () => {
    await pod.close();
    await node.multus.detach(sandbox);
    node.kubelet.removePod({ namespace: "tests", name });
  };
  const networks = [{ ...network, interface: "net1" }];
  const { networkStatus } = await node.multus
    .attach({ ...sandbox, networks })
    .catch(async (error: unknown) => {
      await remove();
      throw error;
    });
  const nodeDirectory = dirname(process.execPath);
  let isRemoved = false;
  const start = (containerName: string, script: string, uid = 107) =>
    pod.startContainer({
      name: containerName,
      command: ["/node/node", "-e", PRELUDE + script],
      mounts: [mount, { hostPath: nodeDirectory, containerPath: "/node", readOnly: true }],
      uid,
      gid: uid,
      env: { ...admitted?.envs },
    });
  return {
    name,
    hostDirectory: mount.hostPath,
    directory: mount.containerPath,
    device: admitted?.deviceIds[SOCKETS]?.[0] ?? "",
    networkStatus,
    run: start,
    runToEnd: async (containerName, script, uid) => {
      const container = await start(containerName, script, uid);
      await container.ended;
      return readFile(container.log, "utf8");
    },
    remove: async () => {
      if (!isRemoved) await remove();
      isRemoved = true;
    },
  };
}

/** Waits until a container has said something. */
export async function said(container: Container, text: string): Promise<void> {
  await waitUntil(async () => (await readFile(container.log, "utf8")).includes(text), {
    what: `${container.name} says ${text}`,
    limitMs: 60_000,
    detail: () => readFileSync(container.log, "utf8"),
  });
}
