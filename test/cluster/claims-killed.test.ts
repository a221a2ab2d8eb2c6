// The daemon is killed between any two steps of kubelet's Prepare and Unprepare, on a real node.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import {
  apply,
  type ClaimsCluster,
  eventually,
  idlePod,
  openClaimsCluster,
  PORT_TEMPLATE,
} from "./claims-cluster.ts";

/** Pods whose claims are prepared, or unprepared, at the same time. */
const PODS = ["one", "two", "three"];
const PORTS = "ovsdb-client --format=csv dump unix:/var/run/openvswitch/db.sock Port name | grep -c vhu";
/** What a step of Prepare makes, and one of Unprepare removes, in the order of Prepare: commands whose output changes. */
const STEPS = {
  records: "stat -c %Y%s /var/lib/kube-vhostuser/allocations/*",
  directories: "ls /var/run/vhostuser | wc -l",
  "directories of claims": "ls -d /var/run/vhostuser/*/port 2>/dev/null | wc -l",
  ports: PORTS,
  "CDI files": "ls /var/run/cdi | wc -l",
} as const;

describe.skipIf(process.env["KUBECONFIG"])("the daemon is killed", () => {
  let rig: ClaimsCluster;

  beforeAll(async () => {
    rig = await openClaimsCluster();
    await apply(rig.cluster, PORT_TEMPLATE);
  });
  afterEach(async () => {
    await kubectl("-n tests delete pods --all --timeout=3m");
    await untilPorts(0);
  });
  afterAll(() => rig?.close());

  const machine = () => {
    const { node } = rig.cluster;
    if (node === undefined) throw new Error("needs the node on this machine");
    return node.machine;
  };
  const kubectl = (command: string) => rig.cluster.sh(`kubectl ${command}`);
  const count = async (what: string) => Number((await machine().sh(`${what} || true`)).stdout.trim());
  /** Waits in the node's machine for a change of the command's output, and kills the daemon at once. */
  const killWhenChanged = async (what: string) => {
    const now = (await machine().sh(`${what} || true`)).stdout.trimEnd();
    const daemon = (await machine().sh("pgrep -o -f dist/daemon/main.mjs")).stdout.trim();
    const script = `while [ "$(${what} || true)" = "${now}" ]; do :; done; kill -KILL ${daemon}`;
    return () => machine().exec("sh", ["-ec", script], { limitMs: 240_000 });
  };
  const restarts = () =>
    kubectl(
      "-n kube-vhostuser get pods --output jsonpath='{.items[*].status.containerStatuses[?(@.name==\"daemon\")].restartCount}'",
    );
  const untilPorts = (wanted: number) =>
    eventually(
      `${wanted} ports`,
      async () => (await rig.interfaces()).length === wanted && (await count(PORTS)) === wanted,
    );

  it.each(Object.entries(STEPS))(
    "when the first of the pods' %s are made: all pods run in the end",
    async (_, what) => {
      const [before, kill] = [await restarts(), await killWhenChanged(what)];
      await Promise.all([kill(), apply(rig.cluster, ...PODS.map((name) => idlePod(name)))]);
      await kubectl(
        `-n tests wait ${PODS.map((name) => `pod/${name}`).join(" ")} --for=condition=Ready --timeout=4m`,
      );
      await eventually("the daemon's container is restarted", async () => (await restarts()) !== before);
      await untilPorts(PODS.length);
      await eventually("doctor finds no problem", async () => /^no problems$/m.test(await rig.ctl("doctor")));
    },
  );

  it.each(Object.entries(STEPS))(
    "when the first of the pods' %s are removed: nothing is left in the end",
    async (_, what) => {
      await apply(rig.cluster, ...PODS.map((name) => idlePod(name)));
      await kubectl(
        `-n tests wait ${PODS.map((name) => `pod/${name}`).join(" ")} --for=condition=Ready --timeout=4m`,
      );
      const [before, kill] = [await restarts(), await killWhenChanged(what)];
      await Promise.all([kill(), kubectl("-n tests delete pods --all --timeout=4m")]);
      await eventually("the daemon's container is restarted", async () => (await restarts()) !== before);
      await untilPorts(0);
      await eventually("doctor finds no problem", async () => /^no problems$/m.test(await rig.ctl("doctor")));
      expect((await machine().sh("ls -A /var/run/cdi")).stdout).toBe("");
      expect(await kubectl("-n tests get resourceclaims --output name")).toBe("");
    },
  );
});
