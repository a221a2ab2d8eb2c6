import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { type InterfaceRecord, interfaceRecordKind } from "../../src/cni-dra/interface-record.ts";
import { CNI_DRIVER } from "../../src/cni-dra/plan-interfaces.ts";
import { readRecordsOf } from "../../src/records/record-store.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { apply, eventually } from "./claims-cluster.ts";
import { type Cluster, IMAGES, openCluster } from "./cluster.ts";
import type { KubernetesNode } from "./kubernetes-node.ts";
import { kubernetesParts } from "./kubernetes-parts.ts";
import { PAUSE } from "./local-image.ts";
import { installPrograms } from "./node-machine.ts";

/** Where the node's files of the driver are; the last one has host-local's addresses, a directory for each network. */
const RECORDS = "var/lib/kube-vhostuser/cni-dra";
const [READY, CDI, ADDRESSES] = ["run/kube-vhostuser/cni-dra", "run/cdi", "var/lib/cni/networks"];
const SELECTOR = "app.kubernetes.io/name=kube-vhostuser-cni-dra";
/** In its directory a test puts a file for each CNI command that is to wait. */
const HOLD = "run/hold";
/** The pods' own network, whose plugin waits as long as a test wants, and then is the CNI project's bridge. */
const HELD_BRIDGE = `#!/bin/sh
while [ -e /${HOLD}/$CNI_COMMAND ]; do touch /${HOLD}/$CNI_COMMAND-waits; sleep 0.1; done
exec /opt/cni/bin/bridge
`;

/** A cluster of one node with the driver cni-dra, installed by the chart. */
export class CniDraCluster {
  readonly node: KubernetesNode;
  readonly #run: LabRun;
  readonly #cluster: Cluster;

  private constructor(run: LabRun, cluster: Cluster, node: KubernetesNode) {
    this.#run = run;
    this.#cluster = cluster;
    this.node = node;
  }

  static async open(): Promise<CniDraCluster> {
    const run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
    try {
      const cluster = await openCluster(run, {}, { images: IMAGES.slice(0, 1) });
      if (cluster.node === undefined) throw new Error("needs the node on this machine");
      const rig = new CniDraCluster(run, cluster, cluster.node);
      await rig.#installNetworks();
      await rig.#installDriver();
      return rig;
    } catch (error) {
      await run.close();
      throw error;
    }
  }

  close(): Promise<void> {
    return this.#run.close();
  }

  /** Runs kubectl, with a shell's words. */
  kubectl(command: string): Promise<string> {
    return this.#cluster.sh(`kubectl ${command}`);
  }

  apply(...objects: readonly object[]): Promise<void> {
    return apply(this.#cluster, ...objects);
  }

  /** A template of claims for an interface `net1` of a CNI configuration. @param device of the node, or its host interface */
  async createTemplate(name: string, config: object, device: "cni" | "up0" = "cni"): Promise<void> {
    const hostInterface = `device.attributes["${CNI_DRIVER}"].?interfaceName.orValue("")`;
    const parameters = {
      ...{ apiVersion: "cni.networking.x-k8s.io/v1alpha1", kind: "CNIConfig", ifName: "net1" },
      config: { cniVersion: "1.0.0", name, ...config },
    };
    const exactly = {
      deviceClassName: "cni.networking.x-k8s.io",
      selectors: [{ cel: { expression: `${hostInterface} == "${device === "cni" ? "" : device}"` } }],
    };
    await this.apply({
      ...{ apiVersion: "resource.k8s.io/v1", kind: "ResourceClaimTemplate" },
      metadata: { name, namespace: "tests" },
      spec: {
        spec: {
          devices: {
            requests: [{ name: "net", exactly }],
            config: [{ requests: ["net"], opaque: { driver: CNI_DRIVER, parameters } }],
          },
        },
      },
    });
  }

  /** A pod with a claim of a template, whose container notes whether `net1` had an address when it started. */
  async createPod(name: string, template: string): Promise<void> {
    const script =
      "/busybox ip -4 address show net1 | /busybox grep -q inet && echo > /attached; exec /busybox sleep 2147483647";
    await this.apply({
      ...{ apiVersion: "v1", kind: "Pod", metadata: { name, namespace: "tests" } },
      spec: {
        terminationGracePeriodSeconds: 0,
        resourceClaims: [{ name: "net", resourceClaimTemplateName: template }],
        containers: [
          {
            ...{ name: "c", image: PAUSE.name, imagePullPolicy: "Never" },
            ...{ command: ["/busybox", "sh", "-c", script], resources: { claims: [{ name: "net" }] } },
          },
        ],
      },
    });
  }

  /** It runs, and did not start without its interface. */
  async untilAttached(pod: string): Promise<void> {
    await eventually(`${pod} runs with its interface`, async () => {
      await this.kubectl(`-n tests exec ${pod} -- /busybox ls /attached`);
      return true;
    });
  }

  /** What the pod's container sees of `net1`. */
  async interfaceOf(pod: string): Promise<{ readonly mac: string; readonly address: string }> {
    const shown = await this.kubectl(`-n tests exec ${pod} -- /busybox ip address show net1`);
    const [mac = "", address = ""] = [/link\/ether (\S+)/, /inet (\S+)/].map((one) => one.exec(shown)?.[1]);
    return { mac, address };
  }

  /** The status of the pod's claim has that of its device. */
  async deviceOf(pod: string): Promise<Readonly<Record<string, unknown>> | undefined> {
    const path = "{.status.resourceClaimStatuses[0].resourceClaimName}";
    const claim = await this.kubectl(`-n tests get pod/${pod} --output jsonpath='${path}'`);
    const text = await this.kubectl(`-n tests get resourceclaim/${claim} --output json`);
    return JSON.parse(text).status.devices?.[0];
  }

  /** An event of the pod says it. */
  async untilEvent(pod: string, reason: string, message: RegExp): Promise<void> {
    const events = `-n tests get events --field-selector involvedObject.name=${pod},reason=${reason} --output jsonpath='{.items[*].message}'`;
    await eventually(`${reason}: ${message.source}`, async () => message.test(await this.kubectl(events)));
  }

  /** Addresses that host-local has given out on a network. */
  async addressesOf(network: string): Promise<readonly string[]> {
    const files = await readdir(this.#path(ADDRESSES, network)).catch(() => []);
    return files.filter((name) => /^\d/.test(name));
  }

  /** Nothing is left of any claim: no object, record, file or address of the networks. */
  async untilGone(...networks: readonly string[]): Promise<void> {
    await eventually(
      "no claim is left",
      async () => (await this.kubectl("-n tests get resourceclaims --output name")) === "",
    );
    let left: readonly string[] = [];
    await eventually("nothing is left on the node", async () => {
      const files = [READY, CDI].map((directory) => readdir(this.#path(directory)).catch(() => []));
      const addresses = networks.map((network) => this.addressesOf(network));
      left = [...(await Promise.all([...files, ...addresses])).flat(), ...(await this.records()).map(String)];
      return left.length === 0;
    });
  }

  async records(): Promise<readonly InterfaceRecord[]> {
    const { values } = await readRecordsOf(this.#path(RECORDS), interfaceRecordKind);
    return [...values.values()];
  }

  /** The pods' own network does not come further in this CNI command, until what is returned is called. */
  async hold(command: "ADD" | "DEL"): Promise<() => Promise<void>> {
    await this.node.machine.sh(`mkdir -p /${HOLD}; touch /${HOLD}/${command}`);
    return async () =>
      void (await this.node.machine.sh(`rm -f /${HOLD}/${command} /${HOLD}/${command}-waits`));
  }

  /** A pod is in that command. */
  async untilHeld(command: "ADD" | "DEL"): Promise<void> {
    const isThere = () => this.node.machine.sh(`ls /${HOLD}/${command}-waits`);
    await eventually(`CNI ${command} is called`, () => isThere().then(() => true));
  }

  /** SIGKILL; kubelet starts its container again, at once or when it is back. */
  async killDriver(): Promise<void> {
    await this.node.machine.sh("kill -KILL $(pgrep -o -f dist/cni-dra/main.mjs)");
  }

  async untilDriverReady(): Promise<void> {
    await eventually("the slice has devices", async () => (await this.devices()).length > 0);
  }

  /** Devices of the node's slice. */
  async devices(): Promise<readonly { readonly name: string }[]> {
    const { items } = JSON.parse(await this.kubectl("get resourceslices --output json"));
    return items.flatMap(({ spec }: { spec: { devices?: { name: string }[] } }) => spec.devices ?? []);
  }

  /** A token as the driver's pod has it: bound to the pod, with its node's name. */
  async driverToken(): Promise<string> {
    const pod = await this.kubectl(
      `-n kube-vhostuser get pods --selector=${SELECTOR} --output jsonpath='{.items[0].metadata.name} --bound-object-uid={.items[0].metadata.uid}'`,
    );
    const account = "-n kube-vhostuser create token kube-vhostuser-cni-dra";
    return (await this.kubectl(`${account} --bound-object-kind=Pod --bound-object-name=${pod}`)).trim();
  }

  async #installNetworks(): Promise<void> {
    const { machine } = this.node;
    const { cniPlugins } = kubernetesParts(process.env);
    await installPrograms(machine, { "/opt/cni/bin/macvlan": join(cniPlugins, "macvlan") });
    await machine.write("/opt/cni/bin/held-bridge", HELD_BRIDGE);
    const pods = {
      ...{ cniVersion: "1.0.0", name: "pods", type: "held-bridge", bridge: "cni0", isGateway: true },
      ipam: { type: "host-local", subnet: machine.podSubnet },
    };
    // It comes first by its name.
    await machine.write("/etc/cni/net.d/00-held.conf", JSON.stringify(pods));
    await machine.sh(`chmod 755 /opt/cni/bin/held-bridge
      ip link add up0 type veth peer name wire0; ip link set up0 up; ip link set wire0 up`);
  }

  async #installDriver(): Promise<void> {
    const allowedPlugins = {
      macvlan: ["mode", "ipam"],
      bridge: ["bridge", "ipam"],
      "host-local": ["ranges"],
    };
    const values = { cniDra: { enabled: true, interfaces: [{ name: "up0" }], allowedPlugins } };
    await this.#cluster.sh(`
      kubectl create namespace kube-vhostuser
      kubectl label namespace kube-vhostuser pod-security.kubernetes.io/enforce=privileged
      helm install kube-vhostuser deploy/chart/kube-vhostuser --namespace kube-vhostuser --values - <<'END'
${JSON.stringify(values)}
END
      kubectl -n kube-vhostuser rollout status daemonset/kube-vhostuser-cni-dra --timeout=5m
      kubectl create namespace tests`);
    await this.untilDriverReady();
  }

  #path(...names: readonly string[]): string {
    return join(`/proc/${this.node.machine.pid}/root`, ...names);
  }
}

/** Addresses of a network of its own by the CNI project's host-local. */
export const hostLocal = (subnet: string) => ({ type: "host-local", ranges: [[{ subnet }]] });
