// The commands of docs/quick-start.md, from its code blocks, and the output that the page shows.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import { PROJECT } from "./kubernetes-parts.ts";
import { quickStartSteps } from "./quick-start-page.ts";

let run: LabRun;
let cluster: Cluster;

beforeAll(async () => {
  run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
  cluster = await openCluster(run);
});

afterAll(() => run?.close());

it("shows what its commands print", async () => {
  const hasKubeVirt = (await cluster.sh("kubectl get crds --output name")).includes("kubevirts.kubevirt.io");
  const steps = quickStartSteps().filter(({ kubeVirt }) => hasKubeVirt || !kubeVirt);
  expect(steps.length).toBeGreaterThan(6);
  for (const { script, output } of steps) expect(await cluster.sh(script), script).toMatch(output);
});

it("leaves no port, and on the node only what docs/install.md lists, which its commands remove", async (context) => {
  const { node } = cluster;
  if (node === undefined) return context.skip("needs a shell on the node");
  // The switch's pod keeps its database there.
  const query = '["Open_vSwitch",{"op":"select","table":"Interface","where":[],"columns":["name","type"]}]';
  const rows = await node.machine.sh(`ovsdb-tool query /var/lib/openvswitch-dpdk/conf.db '${query}'`);
  expect(rows.stdout).toContain("br-dpdk");
  expect(rows.stdout).not.toContain("dpdkvhostuser");

  const page = readFileSync(join(PROJECT, "docs/install.md"), "utf8").split(/^## Uninstall$/m)[1] ?? "";
  const commands = [...page.matchAll(/^\| .* \| `((?:umount|rm) [^`]+)` \|$/gm)].map(
    ([, command]) => command,
  );
  expect(commands).toHaveLength(5);
  for (const command of commands) await node.machine.sh(command ?? "");
  const find = "find /run /var/lib /opt /etc -xdev -name '*vhostuser*' -not -path '/var/lib/containerd/*'";
  expect((await node.machine.sh(find)).stdout).toBe("");
});
