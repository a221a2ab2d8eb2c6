// Thick Multus, installed by its own manifest with its own limits of memory and CPU.
import { afterAll, beforeAll, expect, it } from "vitest";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import { MULTUS_THICK_VARIABLE } from "./kubernetes-parts.ts";
import { quickStartSteps } from "./quick-start-page.ts";

const directory = process.env[MULTUS_THICK_VARIABLE];
let run: LabRun;
let cluster: Cluster;

beforeAll(async () => {
  if (directory === undefined || process.env["KUBECONFIG"]) return;
  run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
  cluster = await openCluster(run, {}, { thickMultus: directory });
});

afterAll(() => run?.close());

it("attaches six pods at once, and its daemon is not ended for want of memory", async (context) => {
  if (cluster === undefined) return context.skip(`needs ${MULTUS_THICK_VARIABLE}, and no KUBECONFIG`);
  for (const { section, script } of quickStartSteps()) if (/^[34]\./.test(section)) await cluster.sh(script);
  await cluster.sh(`
    kubectl -n tests scale statefulset/traffic --replicas=6
    kubectl -n tests rollout status statefulset/traffic --timeout=3m`);
  const status = await cluster.sh(
    "kubectl -n kube-vhostuser exec daemonset/kube-vhostuser -- vhostuserctl status --output json",
  );
  expect(JSON.parse(status).interfaces).toHaveLength(6);
  await cluster.sh("kubectl delete namespace tests --timeout=3m");
  const path = "{.items[*].status.containerStatuses[*].restartCount}";
  const restarts = `kubectl -n kube-system get pods --selector=name=multus --output jsonpath='${path}'`;
  expect(await cluster.sh(restarts)).toBe("0");
});
