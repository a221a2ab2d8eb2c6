// The daemon's configuration file: every key, its default, and what docs/configuration.md says of it.
import { isIP } from "node:net";
import * as z from "zod";
import { isLoopback } from "../addresses/host-address.ts";
import { isAllocationId } from "../names/allocation-id.ts";
import { isBelow } from "../names/unix-path.ts";
import { absolutePath, poolsSchema, resourceName } from "./pool-schema.ts";

const switchedOff = z.boolean().default(false);
const tcpPort = z.number().int().min(0).max(65_535);

const rootFileSystem = z.strictObject({
  sizeMiB: z
    .number()
    .int()
    .min(1)
    .max(1024)
    .default(16)
    .describe("Bytes that all allocations together may use; sockets and directories need none."),
  allowInsecure: switchedOff.describe(
    "Serve although the root's mount does not keep pods apart; for trying things out.",
  ),
});

const kubelet = z.strictObject({
  devicePlugins: absolutePath
    .default("/var/lib/kubelet/device-plugins")
    .describe("Directory of kubelet.sock and of the plugins' sockets."),
  podResources: absolutePath
    .default("/var/lib/kubelet/pod-resources/kubelet.sock")
    .describe("Socket of kubelet's PodResources API."),
  plugins: absolutePath
    .default("/var/lib/kubelet/plugins")
    .describe("Directory of the sockets and files of DRA drivers; kubelet must see it at this path."),
  pluginsRegistry: absolutePath
    .default("/var/lib/kubelet/plugins_registry")
    .describe("Directory in which kubelet finds DRA drivers."),
});

const reclaim = z.strictObject({
  intervalSeconds: z.number().positive().default(30).describe("Time between two reads of PodResources."),
  graceSeconds: z
    .number()
    .min(1)
    .default(120)
    .describe("Minimum age of an allocation that can be reclaimed."),
});

const observe = z.strictObject({
  address: z
    .string()
    .refine((address) => isIP(address) !== 0, { error: "must be an IP address, such as 0.0.0.0 or ::" })
    .default("127.0.0.1")
    .describe("Address of metrics and probes; `0.0.0.0` or `::` for every address of the pod or node."),
  port: tcpPort
    .default(9417)
    .describe("TCP port of metrics and probes; 0 for any free one, which is in the log."),
  interfaces: switchedOff.describe(
    "Serve `/metrics/interfaces`, with the traffic of each interface. Every client that reaches the address can read names of pods there.",
  ),
});

const statusPage = z.strictObject({
  enabled: switchedOff.describe(
    "Serve a read-only page that shows this node to a browser: docs/status-page.md.",
  ),
  address: z
    .string()
    .refine(isLoopback, {
      error:
        "must be a loopback address, 127.0.0.1 or ::1: the page has no authentication of its own, kubectl port-forward does (docs/status-page.md)",
    })
    .default("127.0.0.1")
    .describe("Loopback address of the page; `kubectl port-forward` reaches it."),
  port: tcpPort.default(9418).describe("TCP port of the page; 0 for any free one, which is in the log."),
});

/** How the API server is reached. */
const apiClient = {
  apiServer: z
    .url({ protocol: /^https$/ })
    .refine((url) => URL.parse(url)?.href === `${URL.parse(url)?.origin}/`, {
      error: "must be https://host:port and nothing else: a path is not supported",
    })
    .optional()
    .describe("API server; default is that of the environment (`KUBERNETES_SERVICE_HOST`)."),
  serviceAccountDirectory: absolutePath
    .default("/var/run/secrets/kubernetes.io/serviceaccount")
    .describe("Directory of the ServiceAccount's `token` and `ca.crt`."),
};

const events = z.strictObject({
  enabled: switchedOff.describe(
    "Post Kubernetes events about pods and the node. Needs a ServiceAccount with the right to create and patch events.",
  ),
  ...apiClient,
});

const dra = z.strictObject({
  enabled: switchedOff.describe(
    "Serve ResourceClaims (DRA) as well: docs/dra.md. Needs a ServiceAccount with the rights that are listed there.",
  ),
  cdiDirectory: absolutePath
    .default("/var/run/cdi")
    .describe("Directory in which the container runtime finds CDI files."),
  ipamPlugins: absolutePath
    .optional()
    .describe(
      "Directory of the IPAM plugins that give claims their addresses, as the daemon sees it; without it claims cannot ask for addresses.",
    ),
  ...apiClient,
});

/** The daemon's configuration file; every key that is not here is an error. */
export const daemonConfigSchema = z
  .strictObject({
    node: z
      .string()
      .min(1)
      .describe(
        "Name of this node, which marks its ports in the switch; default `NODE_NAME` of the environment.",
      ),
    root: absolutePath.default("/var/run/vhostuser").describe("Host directory of all allocations."),
    rootFileSystem: rootFileSystem.prefault({}),
    switchRoot: absolutePath
      .optional()
      .describe("The root as the switch sees it, if that differs from the daemon's path."),
    podRoot: absolutePath
      .default("/var/run/vhostuser")
      .describe("Directory in pods below which their allocation appears; the same on every node."),
    recordsDirectory: absolutePath.default("/var/lib/kube-vhostuser").describe("Where records are kept."),
    cniSocket: absolutePath
      .default("/run/kube-vhostuser/cni.sock")
      .describe("Socket that the CNI executable connects to."),
    statusSocket: absolutePath
      .optional()
      .describe(
        "Socket of the node's status for `vhostuserctl`, for root only; default is `status.sock` beside `cniSocket`.",
      ),
    deviceInfoDirectory: absolutePath
      .default("/var/run/k8s.cni.cncf.io/devinfo")
      .describe("Directory of device-info files (with dp/ and cni/ below it)."),
    kubelet: kubelet.prefault({}),
    dataplaneResource: resourceName
      .default("vhostuser/dataplane")
      .describe("Resource that mounts the root of all allocations into the switch's pod."),
    reclaim: reclaim.prefault({}),
    observe: observe.prefault({}),
    statusPage: statusPage.prefault({}),
    announce: z
      .boolean()
      .default(true)
      .describe(
        "Announce a guest to the network when its port comes up, as after a migration: its MAC, and the addresses that IPAM gave; and refresh the MAC table of the switch that a guest left.",
      ),
    reconnectSilentAfterSeconds: z
      .number()
      .min(0)
      .max(3_600)
      .default(30)
      .describe(
        "Seconds after which the switch reconnects to a VM whose socket exists but whose guest never sent anything, as after a migration from a node whose switch failed; repeated after twice the time, seven times in all. 0 for never.",
      ),
    events: events.prefault({}),
    dra: dra.prefault({}),
    pools: poolsSchema,
  })
  .superRefine((config, context) => {
    // Zod makes no list of pools in which it has found a problem.
    if (!Array.isArray(config.pools)) return;
    for (const { path, message } of [
      ...duplicates(config),
      ...misplacedSockets(config),
      ...idleClaims(config),
    ]) {
      context.addIssue({ code: "custom", path: [...path], message });
    }
  });

export type DaemonConfig = z.infer<typeof daemonConfigSchema>;
export type PoolConfig = DaemonConfig["pools"][number];

/** A key whose value does not go with the others, and why. */
interface Conflict {
  readonly path: readonly string[];
  readonly message: string;
}

/** Pools that share a resource, or have the dataplane's. */
function duplicates({
  dataplaneResource,
  pools,
}: Pick<DaemonConfig, "dataplaneResource" | "pools">): Conflict[] {
  const usedBy = new Map([[dataplaneResource, "dataplaneResource"]]);
  return pools.flatMap(({ name, resource }) => {
    const user = usedBy.get(resource);
    if (user === undefined) usedBy.set(resource, `pools.${name}.resource`);
    const message = `${resource} is used by ${user} already, every pool needs a resource of its own`;
    return user === undefined ? [] : [{ path: ["pools", name, "resource"], message }];
  });
}

/** Directories of the switch's sockets that pods could reach: only the daemon and the switch may. */
function misplacedSockets({ root, pools }: Pick<DaemonConfig, "root" | "pools">): Conflict[] {
  return pools.flatMap(({ name: pool, switchSockets }) => {
    if (switchSockets === undefined) return [];
    const [name = ""] = isBelow(switchSockets, root) ? switchSockets.slice(root.length + 1).split("/") : [];
    if (name !== "" && !isAllocationId(name)) return [];
    const message =
      name === ""
        ? `must lie below root, ${root}: a socket is moved from there to its pod`
        : `${name} could be an allocation's directory: it must not have ${name.length} lower-case letters and digits`;
    return [{ path: ["pools", pool, "switchSockets"], message }];
  });
}

/** Ports that are kept for claims which no driver serves. */
function idleClaims({ dra: { enabled }, pools }: Pick<DaemonConfig, "dra" | "pools">): Conflict[] {
  const idle = enabled ? [] : pools.filter(({ claims }) => claims !== undefined);
  return idle.map(({ name }) => ({ path: ["pools", name, "claims"], message: "needs dra.enabled: true" }));
}
