import { isIP } from "node:net";
import { z } from "zod";
import { isAllocationId } from "../names/allocation-id.ts";
import { isLoopback } from "../names/ip-address.ts";
import { isBelow } from "../names/unix-path.ts";
import { poolSchema } from "./pool-schema.ts";
import { absolutePath, resourceName } from "./scalars.ts";

/** The daemon's configuration file; every key that is not here is refused. */
export const daemonConfigSchema = z
  .strictObject({
    node: z
      .string()
      .min(1)
      .describe(
        "Name of this node, which marks its ports in the switch; else the environment's `NODE_NAME`.",
      ),
    root: absolutePath.default("/var/run/vhostuser").describe("Host directory of all allocations."),
    rootFileSystem: z
      .strictObject({
        sizeMiB: z
          .number()
          .int()
          .min(1)
          .max(1024)
          .default(16)
          .describe("Bytes that all allocations together may fill; sockets and directories take none."),
        inodes: z
          .number()
          .int()
          .min(1024)
          .max(4_194_304)
          .default(131_072)
          .describe("Files, directories and sockets of all allocations together."),
        allowInsecure: z
          .boolean()
          .default(false)
          .describe("Serve although the root's mount does not keep pods apart; for trying things out."),
      })
      .prefault({}),
    switchRoot: absolutePath
      .optional()
      .describe("The root as the switch sees it, where that differs from what the daemon sees."),
    podRoot: absolutePath
      .default("/var/run/vhostuser")
      .describe("Directory in pods below which their allocation appears; the same on every node."),
    recordsDirectory: absolutePath.default("/var/lib/kube-vhostuser").describe("Where records are kept."),
    cniSocket: absolutePath
      .default("/run/kube-vhostuser/cni.sock")
      .describe("Socket that the CNI executable talks to."),
    statusSocket: absolutePath
      .optional()
      .describe(
        "Socket of the node's status, which `vhostuserctl` reads, for root alone; `status.sock` beside `cniSocket` where it is left out.",
      ),
    deviceInfoDirectory: absolutePath
      .default("/var/run/k8s.cni.cncf.io/devinfo")
      .describe("Directory of device-info files (with dp/ and cni/ below it)."),
    kubelet: z
      .strictObject({
        devicePlugins: absolutePath
          .default("/var/lib/kubelet/device-plugins")
          .describe("Directory of kubelet.sock and of the plugins' sockets."),
        podResources: absolutePath
          .default("/var/lib/kubelet/pod-resources/kubelet.sock")
          .describe("Socket of kubelet's PodResources API."),
      })
      .prefault({}),
    dataplaneResource: resourceName
      .default("vhostuser/dataplane")
      .describe("Resource that mounts the whole root into the switch's own pod."),
    reclaim: z
      .strictObject({
        intervalSeconds: z
          .number()
          .positive()
          .default(30)
          .describe("Time between two looks at PodResources."),
        graceSeconds: z
          .number()
          .min(1)
          .default(120)
          .describe("Age that an allocation must have before it can be taken for abandoned."),
      })
      .prefault({}),
    observe: z
      .strictObject({
        address: z
          .string()
          .refine((address) => isIP(address) !== 0, { error: "must be an IP address, such as 0.0.0.0 or ::" })
          .default("127.0.0.1")
          .describe(
            "Address of metrics and probes; `0.0.0.0` or `::` for the pod's or node's every address.",
          ),
        port: z
          .number()
          .int()
          .min(0)
          .max(65_535)
          .default(9417)
          .describe("TCP port of metrics and probes; 0 for any free one, which the log tells."),
        interfaces: z
          .boolean()
          .default(false)
          .describe(
            "Serve `/metrics/interfaces`, with what went through each interface. Who reaches the address reads names of pods there.",
          ),
      })
      .prefault({}),
    statusPage: z
      .strictObject({
        enabled: z
          .boolean()
          .default(false)
          .describe("Serve a read-only page that shows this node to a browser: docs/status-page.md."),
        address: z
          .string()
          .refine(isLoopback, {
            error:
              "must be a loopback address, 127.0.0.1 or ::1: the page asks nobody who they are, kubectl port-forward does (docs/status-page.md)",
          })
          .default("127.0.0.1")
          .describe("Loopback address of the page; `kubectl port-forward` reaches it."),
        port: z
          .number()
          .int()
          .min(0)
          .max(65_535)
          .default(9418)
          .describe("TCP port of the page; 0 for any free one, which the log tells."),
      })
      .prefault({}),
    announce: z
      .boolean()
      .default(true)
      .describe(
        "Tell the network where a guest is when its port comes up, as after a migration: its MAC, and the addresses that IPAM gave; and have the switch that a guest left look where it went.",
      ),
    reconnectSilentAfterSeconds: z
      .number()
      .min(0)
      .max(3_600)
      .default(30)
      .describe(
        "Seconds after which the switch connects anew to a VM whose socket is there and whose guest was never heard, as after a migration from a node whose switch is dead; then after twice the time, seven times in all. 0 for never.",
      ),
    events: z
      .strictObject({
        enabled: z
          .boolean()
          .default(false)
          .describe(
            "Post Kubernetes events about pods and the node. Takes a ServiceAccount with the right to create and patch events.",
          ),
        apiServer: z
          .url({ protocol: /^https$/ })
          .refine((url) => URL.parse(url)?.href === `${URL.parse(url)?.origin}/`, {
            error: "must be https://host:port and nothing else: a path is not asked for",
          })
          .optional()
          .describe("API server; that of the environment (`KUBERNETES_SERVICE_HOST`) where it is left out."),
        serviceAccountDirectory: absolutePath
          .default("/var/run/secrets/kubernetes.io/serviceaccount")
          .describe("Directory of the ServiceAccount's `token` and `ca.crt`."),
      })
      .prefault({}),
    pools: z.array(poolSchema).min(1),
  })
  .superRefine((config, context) => {
    for (const { path, message } of [...takenTwice(config), ...misplacedSockets(config)]) {
      context.addIssue({ code: "custom", path: [...path], message });
    }
  });

export type DaemonConfig = z.infer<typeof daemonConfigSchema>;
export type PoolConfig = DaemonConfig["pools"][number];

/** A key whose value another key has already, and what is wrong with that. */
export interface Conflict {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** Pools that share a name or a resource, or have the dataplane's resource. */
export function takenTwice(config: {
  readonly dataplaneResource: string;
  readonly pools: readonly { readonly name: string; readonly resource: string }[];
}): readonly Conflict[] {
  return (["name", "resource"] as const).flatMap((key) => {
    const takenBy = new Map(key === "resource" ? [[config.dataplaneResource, "dataplaneResource"]] : []);
    return config.pools.flatMap((pool, index) => {
      const taker = takenBy.get(pool[key]);
      if (taker === undefined) {
        takenBy.set(pool[key], `pools.${index}.${key}`);
        return [];
      }
      const message = `${pool[key]} is taken already by ${taker}, every pool needs a ${key} of its own`;
      return [{ path: ["pools", index, key], message }];
    });
  });
}

/** Directories of the switch's sockets that are not where only the daemon and the switch can be. */
export function misplacedSockets(config: {
  readonly root: string;
  readonly pools: readonly { readonly switchSockets?: string | undefined }[];
}): readonly Conflict[] {
  const { root, pools } = config;
  return pools.flatMap(({ switchSockets }, index) => {
    if (switchSockets === undefined) return [];
    const [name = ""] = isBelow(switchSockets, root) ? switchSockets.slice(root.length + 1).split("/") : [];
    if (name !== "" && !isAllocationId(name)) return [];
    const message =
      name === ""
        ? `must lie below root, ${root}: a socket is moved from there to its pod`
        : `${name} could be an allocation's directory: it must not have ${name.length} lower-case letters and digits`;
    return [{ path: ["pools", index, "switchSockets"], message }];
  });
}
