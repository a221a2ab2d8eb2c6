// containerd, kubelet or the driver cni-dra is killed at each step of a pod's life: no container runs without its interface,
// and nothing is left of it.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { CniDraCluster, hostLocal } from "./cni-dra-cluster.ts";

const POD = "victim";

describe.skipIf(process.env["KUBECONFIG"])("under a pod with a CNI claim", () => {
  let rig: CniDraCluster;

  beforeAll(async () => {
    rig = await CniDraCluster.open();
    await rig.createTemplate("lan", { type: "macvlan", ipam: hostLocal("10.60.0.0/24") }, "up0");
  });
  afterEach(async () => {
    await rig.kubectl("-n tests delete pods --all --timeout=4m");
    await rig.untilGone("lan");
  });
  afterAll(() => rig?.close());

  describe.each(["containerd", "kubelet", "driver"] as const)("%s", (part) => {
    const kill = () => (part === "driver" ? rig.killDriver() : rig.node.kill(part));
    /** kubelet starts the driver itself. */
    const restart = async () => {
      if (part !== "driver") await rig.node.restart(part);
    };
    /** The container has had it since it started, and the only address of the network. */
    const untilAttached = async () => {
      await rig.untilAttached(POD);
      const { address } = await rig.interfaceOf(POD);
      expect(await rig.addressesOf("lan")).toEqual([address.split("/")[0]]);
    };

    it("is killed before Prepare", async () => {
      await kill();
      await rig.createPod(POD, "lan");
      await restart();
      await untilAttached();
    });

    it("is killed between Prepare and the start of the sandbox", async () => {
      const release = await rig.hold("ADD");
      await rig.createPod(POD, "lan");
      await rig.untilHeld("ADD");
      await kill();
      await release();
      await restart();
      await untilAttached();
    });

    it("is killed while the pod runs", async () => {
      await rig.createPod(POD, "lan");
      await untilAttached();
      const before = await rig.interfaceOf(POD);
      await kill();
      await restart();
      await untilAttached();
      expect(await rig.interfaceOf(POD)).toEqual(before);
    });

    it("is killed between the end of the sandbox and Unprepare", async () => {
      await rig.createPod(POD, "lan");
      await untilAttached();
      const release = await rig.hold("DEL");
      await rig.kubectl(`-n tests delete pod/${POD} --wait=false`);
      await rig.untilHeld("DEL");
      await kill();
      await release();
      await restart();
    });
  });
});
