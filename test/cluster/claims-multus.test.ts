// A network of Multus with a claim of the same pool, on a Multus that reads claims.
import { accessSync, constants } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  apply,
  type ClaimsCluster,
  eventually,
  idlePod,
  openClaimsCluster,
  PORT_TEMPLATE,
} from "./claims-cluster.ts";
import { MULTUS_CLAIMS_VARIABLE } from "./kubernetes-parts.ts";

const multus = process.env[MULTUS_CLAIMS_VARIABLE];
const MAC = "02:00:00:00:00:77";
let rig: ClaimsCluster | undefined;

beforeAll(async () => {
  if (multus === undefined || process.env["KUBECONFIG"]) return;
  accessSync(multus, constants.X_OK);
  rig = await openClaimsCluster({ multus });
  await apply(rig.cluster, PORT_TEMPLATE);
});
afterAll(() => rig?.close());

it("a pod's network uses the port of its claim, in every sandbox of the pod", async (context) => {
  if (rig === undefined) return context.skip(`needs ${MULTUS_CLAIMS_VARIABLE}, and no KUBECONFIG`);
  const { cluster, ctl, vsctl, interfaces } = rig;
  const networks = [{ name: "vhostuser-network", interface: "net1", mac: MAC }];
  await apply(cluster, idlePod("both", { "k8s.v1.cni.cncf.io/networks": JSON.stringify(networks) }));
  await cluster.sh("kubectl -n tests wait pod/both --for=condition=Ready --timeout=3m");
  const ports = async () =>
    (await vsctl("--bare --columns=name find Interface type=dpdkvhostuserclient"))
      .split("\n")
      .filter(Boolean);
  const [port] = await ports();
  expect(await ports()).toHaveLength(1);
  expect(await interfaces()).toMatchObject([{ network: "vhostuser-network" }]);
  expect(await ctl("trace tests/both || true")).toMatch(
    /record +ok +\S+ attached to network vhostuser-network/,
  );
  const status = await cluster.sh(
    `kubectl -n tests get pod/both --output jsonpath='{.metadata.annotations.k8s\\.v1\\.cni\\.cncf\\.io/network-status}'`,
  );
  expect(JSON.parse(status)).toContainEqual(
    expect.objectContaining({
      ...{ name: "tests/vhostuser-network", interface: "net1", mac: MAC },
      "device-info": expect.objectContaining({ type: "vhost-user" }),
    }),
  );

  const { node } = cluster;
  const started =
    "kubectl -n tests get pod/both --output jsonpath='{.status.containerStatuses[*].restartCount}'";
  expect(await cluster.sh(started)).toBe("0");
  await node?.killSandbox("both");
  await eventually("the pod has another sandbox", async () => (await cluster.sh(started)) !== "0");
  await cluster.sh("kubectl -n tests wait pod/both --for=condition=Ready --timeout=3m");
  expect(await ports()).toEqual([port]);
  await cluster.sh("kubectl -n tests delete pod/both --timeout=2m");
  await eventually("no port is left", async () => (await ports()).length === 0);
  expect(await interfaces()).toEqual([]);
});
