// Pods with interfaces by the driver cni-dra: a real API server, scheduler, kubelet and containerd, real CNI plugins, and the
// driver as the chart installs it.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { CNI_DRIVER } from "../../src/cni-dra/plan-interfaces.ts";
import { eventually } from "./claims-cluster.ts";
import { CniDraCluster, hostLocal } from "./cni-dra-cluster.ts";

describe.skipIf(process.env["KUBECONFIG"])("a pod whose claim has a CNI configuration", () => {
  let rig: CniDraCluster;

  beforeAll(async () => {
    rig = await CniDraCluster.open();
    await rig.createTemplate("lan", { type: "macvlan", ipam: hostLocal("10.60.0.0/24") }, "up0");
    await rig.createTemplate("br", { type: "bridge", bridge: "extra0", ipam: hostLocal("10.61.0.0/24") });
  });
  afterEach(async () => {
    await rig.kubectl("-n tests delete pods --all --timeout=3m");
    await rig.untilGone("lan", "br");
  });
  afterAll(() => rig?.close());

  it("is scheduled to a node that offers the host interface and the device without one", async () => {
    const attributes = { interfaceName: { string: "up0" }, macAddress: { string: expect.any(String) } };
    expect(await rig.devices()).toMatchObject([{ name: "cni" }, { name: "up0", attributes }]);
  });

  it.each([
    ["lan", /^10\.60\.0\.\d+\/24$/],
    ["br", /^10\.61\.0\.\d+\/24$/],
  ])("has the interface of %s, which its claim's status shows", async (template, expected) => {
    await rig.createPod("one", template);
    await rig.createPod("two", template);
    await rig.untilAttached("one");
    await rig.untilAttached("two");
    const [one, two] = [await rig.interfaceOf("one"), await rig.interfaceOf("two")];
    expect(one.address).toMatch(expected);
    expect(two.address).toMatch(expected);
    expect(two.address).not.toBe(one.address);
    expect(await rig.addressesOf(template)).toHaveLength(2);
    await eventually("the status is there", async () => (await rig.deviceOf("one")) !== undefined);
    expect(await rig.deviceOf("one")).toMatchObject({
      driver: CNI_DRIVER,
      conditions: [{ type: "Ready", status: "True", reason: "NetworkInterfaceReady" }],
      networkData: { interfaceName: "net1", hardwareAddress: one.mac, ips: [one.address] },
      data: { cniVersion: "1.0.0", ips: [{ address: one.address }] },
    });
    await rig.kubectl(`-n tests exec one -- /busybox ping -c 1 -W 30 ${two.address.split("/")[0]}`);
  });

  it("does not start where a plugin fails, and its event and its claim say why", async () => {
    await rig.createTemplate("full", { type: "macvlan", ipam: hostLocal("10.62.0.0/30") }, "up0");
    await rig.createPod("one", "full");
    await rig.untilAttached("one");
    await rig.createPod("two", "full");
    const why = /no IP addresses available in range set/;
    await rig.untilEvent("two", "FailedCreatePodSandBox", why);
    await eventually("the claim says so", async () => {
      const conditions = (await rig.deviceOf("two"))?.["conditions"] as readonly object[] | undefined;
      expect(conditions).toMatchObject([
        { type: "Ready", status: "False", reason: "NetworkInterfaceNotReady" },
      ]);
      return why.test(JSON.stringify(conditions));
    });
    // The address that is given back is the next try's.
    await rig.kubectl("-n tests delete pod/one --timeout=2m");
    await rig.untilAttached("two");
    expect((await rig.interfaceOf("two")).address).toBe("10.62.0.2/30");
  });

  it("does not start where a claim may not use the plugin, which nothing has run then", async () => {
    await rig.createTemplate("host", { type: "host-device", device: "up0" });
    await rig.createPod("one", "host");
    await rig.untilEvent("one", "FailedPrepareDynamicResources", /may not use the plugin host-device/);
  });

  it("has a new interface in a new sandbox, without a further Prepare", async () => {
    await rig.createPod("moved", "lan");
    await rig.untilAttached("moved");
    const before = await rig.interfaceOf("moved");
    const prepared = await prepares();
    expect(prepared).toBeGreaterThan(0);
    await rig.node.killSandbox("moved");
    await eventually("it has another interface", async () => {
      const { mac, address } = await rig.interfaceOf("moved");
      return mac !== before.mac && address !== before.address;
    });
    expect(await rig.addressesOf("lan")).toHaveLength(1);
    const [record] = await rig.records();
    expect(record?.attachments).toMatchObject([{ state: "added" }]);
    expect(await prepares()).toBe(prepared);
  });

  /** kubelet's calls so far. */
  async function prepares(): Promise<number> {
    const metrics = await rig.kubectl("get --raw /api/v1/nodes/node-1/proxy/metrics");
    const count = /^dra_grpc_operations_duration_seconds_count\{.*NodePrepareResources.*\} (\d+)$/m.exec(
      metrics,
    );
    return Number(count?.[1]);
  }

  it("is not what another node's driver could promise: its token writes only slices of its own node", async () => {
    const token = await rig.driverToken();
    const write = (node: string) => {
      const slice = {
        ...{ apiVersion: "resource.k8s.io/v1", kind: "ResourceSlice" },
        metadata: { name: `${node}-${CNI_DRIVER}-extra` },
        spec: {
          ...{ driver: CNI_DRIVER, nodeName: node, devices: [{ name: "cni" }] },
          pool: { name: node, generation: 1, resourceSliceCount: 1 },
        },
      };
      // The administrator's kubeconfig has a token of its own.
      const as = `--kubeconfig=/dev/null --server=https://10.96.0.1 --insecure-skip-tls-verify --token=${token}`;
      return rig.kubectl(`${as} create --dry-run=server -f - <<'END'\n${JSON.stringify(slice)}\nEND`);
    };
    expect(await write("node-1")).toContain("created (server dry run)");
    await expect(write("node-2")).rejects.toThrow("must not write slices of another node or pool");
  });
});
