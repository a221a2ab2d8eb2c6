// The driver cni-dra on a real container runtime, with the CNI project's plugins; kubelet and the API server are stand-ins.
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CNI_DRIVER } from "../../src/cni-dra/plan-interfaces.ts";
import { serveCniDra } from "../../src/cni-dra/serve.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { type ApiRig, startApiRig } from "../stand-in/api-server/api-rig.ts";
import { claimObject } from "../stand-in/dra/claim-object.ts";
import { StandInDraManager } from "../stand-in/kubelet/dra-manager.ts";
import { NriRuntime } from "./nri-runtime.ts";

const POD = { name: "pod", uid: "pod-uid" };
const CLAIM = { name: "c", namespace: "tenant" };

describe.skipIf(process.env["KUBECONFIG"])("interfaces by CNI plugins on a real runtime", () => {
  let run: LabRun;
  let runtime: NriRuntime;
  let rig: ApiRig;
  let kubelet: StandInDraManager;
  let stop: AbortController;
  let running: Promise<void>;
  let top: string;

  beforeAll(async () => {
    run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
    runtime = new NriRuntime(run);
    await runtime.start();
    top = join(runtime.machine.disk, "d");
    for (const name of ["r", "bin", "state", "class/net"]) await mkdir(join(top, name), { recursive: true });
    // The driver's plugins run in the machine's namespaces, as its pod's do in the node's.
    const bridge = join(top, "bin/bridge");
    const enter = `nsenter --target=${runtime.machine.pid} --mount --net --pid --`;
    await writeFile(bridge, `#!/bin/sh\nCNI_PATH=/opt/cni/bin exec ${enter} /opt/cni/bin/bridge\n`);
    await chmod(bridge, 0o755);
    rig = await startApiRig();
    rig.server.store.create("nodes", { metadata: { name: "n1" } });
    kubelet = new StandInDraManager(join(top, "r"));
    kubelet.start();
  });
  afterAll(async () => {
    await kubelet?.stop();
    await stopDriver();
    await rig?.close();
    await run?.close();
  });

  function startDriver(): void {
    stop = new AbortController();
    running = serveCniDra({
      ...{ node: "n1", config: { allowedPlugins: {} }, logger: rig.logger },
      ...{ stateDirectory: join(top, "state"), pluginDirectory: join(top, "bin") },
      nriSocket: runtime.nriSocket,
      kubelet: { plugins: join(top, "p"), pluginsRegistry: join(top, "r") },
      ...{ cdiDirectory: runtime.cdiDirectory, readyDirectory: join(top, "ready") },
      netnsDirectory: `/proc/${runtime.machine.pid}/root/run/netns`,
      sysfs: top,
      ...{ serviceAccountDirectory: rig.serviceAccountDirectory, apiServer: undefined },
      ...{ apiServerUrl: rig.server.url, podUid: "driver-uid", signal: stop.signal },
    });
  }
  async function stopDriver(): Promise<void> {
    stop?.abort("SIGTERM");
    await running;
  }
  /** A claim by a DeviceClass with a bridge and addresses of its own, allocated to a pod. @param more a second request */
  function createClaim(pod = POD, more: object | undefined = undefined) {
    const ipam = { type: "host-local", ranges: [[{ subnet: "10.50.0.0/24" }]] };
    const network = { cniVersion: "1.0.0", name: "extra", type: "bridge", bridge: "extra0", ipam };
    const configs = more === undefined ? [network] : [network, { ...network, ...more }];
    const metadata = { ...CLAIM, name: `${pod.name}-claim` };
    const { metadata: _, ...claim } = claimObject({
      ...{ ...metadata, pods: [{ name: pod.name, uid: pod.uid }] },
      results: configs.map((_, index) => ({ request: `r${index}`, driver: CNI_DRIVER, device: "cni" })),
      config: configs.map((config, index) => ({
        ...{ source: "FromClass", driver: CNI_DRIVER, requests: [`r${index}`] },
        parameters: {
          ...{ apiVersion: "cni.networking.x-k8s.io/v1alpha1", kind: "CNIConfig" },
          ...{ ifName: `net${index + 1}`, config },
        },
      })),
    });
    const stored = rig.server.store.create("tenant/resourceclaims", { ...claim, metadata });
    return { ...metadata, uid: stored.metadata.uid };
  }
  /** Addresses that net1 has in the network namespaces of pods. */
  const addresses = async () => {
    const script =
      "for name in $(ls /run/netns); do nsenter --net=/run/netns/$name ip -4 -o address show net1 2>/dev/null || true; done";
    const { stdout } = await runtime.machine.sh(script);
    return [...stdout.matchAll(/inet (\S+)/g)].map(([, address]) => address);
  };
  /** Addresses that host-local has given out. */
  const given = async () => {
    const { stdout } = await runtime.machine.sh("ls /var/lib/cni/networks/extra 2>/dev/null || true");
    return stdout.split("\n").filter((name) => name.startsWith("10."));
  };

  it("are made with each sandbox (NRI 13), no container starts without (NRI 9), and Unprepare cleans (NRI 15)", async () => {
    startDriver();
    await kubelet.waitForDriver(CNI_DRIVER);
    const [device] = await kubelet.prepare(POD.uid, CNI_DRIVER, [createClaim()]);
    const cdi = device?.cdi_device_ids[0] ?? "";

    const first = await runtime.runPod(POD);
    expect(await addresses()).toEqual(["10.50.0.2/24"]);
    await runtime.runContainer(first, POD, "one", cdi);
    await runtime.stopPod(first);
    expect([await addresses(), await given()]).toEqual([[], []]);
    await runtime.removePod(first);

    const removed = await runtime.runPod({ ...POD, attempt: 1 });
    expect(await addresses()).toHaveLength(1);
    // The driver is away while that sandbox ends and the next one starts.
    await stopDriver();
    await runtime.stopPod(removed);
    await runtime.removePod(removed);
    const again = { ...POD, attempt: 2 };
    const second = await runtime.runPod(again);
    expect([await addresses(), (await given()).length]).toEqual([[], 1]);
    await expect(runtime.runContainer(second, again, "two", cdi)).rejects.toThrow(
      /no such file or directory/,
    );
    startDriver();
    await waitUntil(async () => (await addresses()).length === 1, { what: "the interface is made" });
    await runtime.runContainer(second, again, "three", cdi);
    expect(await given()).toHaveLength(1);

    // containerd says nothing of the end of a sandbox that is older than itself, and CRI-O does.
    await runtime.restart();
    await runtime.stopPod(second);
    expect(await given()).toHaveLength(runtime.name === "containerd" ? 1 : 0);
    await kubelet.waitForDriver(CNI_DRIVER);
    await kubelet.unprepare(POD.uid, CNI_DRIVER);
    expect(await given()).toEqual([]);
    await runtime.removePod(second);
  });

  it("whose second ADD fails have DEL of both, and the runtime's error shows why (NRI 12)", async () => {
    const pod = { name: "failing", uid: "failing-uid" };
    // The subnet's gateway is no address for a pod.
    const range = { subnet: "10.60.0.0/24", rangeStart: "10.60.0.1", rangeEnd: "10.60.0.1" };
    const claim = createClaim(pod, { name: "other", ipam: { type: "host-local", ranges: [[range]] } });
    await kubelet.prepare(pod.uid, CNI_DRIVER, [claim]);
    await expect(runtime.runPod(pod)).rejects.toThrow(/CNI plugin "bridge": .*no IP addresses available/);
    expect([await addresses(), await given()]).toEqual([[], []]);
    await kubelet.unprepare(pod.uid, CNI_DRIVER);
  });
});
