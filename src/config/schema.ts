import { isAbsolute, normalize } from "node:path";
import { z } from "zod";
import { isPoolName, POOL_NAME_MAX } from "../names/device-id.ts";
import { isResourceName } from "../names/resource-name.ts";

const absolutePath = z
  .string()
  .refine((path) => isAbsolute(path) && normalize(path) === path && (path === "/" || !path.endsWith("/")), {
    error: "must be an absolute path without '.', '..' or a slash at its end",
  });

const resourceName = z
  .string()
  .refine(isResourceName, { error: "must be an extended resource name such as vhostuser/sockets" });

const unsignedId = z.number().int().min(0).max(0xfffffffe);

const octalMode = z
  .string()
  .regex(/^[0-7]{3,4}$/, { error: 'must be an octal mode in quotes, such as "2770"' })
  .transform((text) => Number.parseInt(text, 8));

const dataplaneSchema = z.strictObject({
  type: z.literal("ovs-dpdk").describe("Kind of switch."),
  database: absolutePath
    .default("/var/run/openvswitch/db.sock")
    .describe("Unix socket of ovsdb-server, as the daemon sees it."),
  bridge: z.string().min(1).describe("Bridge that ports join when the network names none."),
});

const directorySchema = z.strictObject({
  owner: unsignedId.default(107).describe("uid of the directories in an allocation; 107 is KubeVirt's QEMU."),
  group: unsignedId.default(107).describe("gid, usually a group that the switch runs with."),
  mode: octalMode.prefault("2770").describe("Mode in octal; setgid makes sockets carry the group."),
});

const poolSchema = z.strictObject({
  name: z
    .string()
    .refine(isPoolName, { error: `must be a DNS label of at most ${POOL_NAME_MAX} characters` })
    .describe("Part of device ids and of the path that pods see."),
  resource: resourceName.describe("Extended resource that pods ask for."),
  capacity: z.number().int().min(1).max(10_000).describe("Number of devices."),
  dataplane: dataplaneSchema,
  directory: directorySchema.prefault({}),
});

/** The daemon's configuration file; every key that is not here is refused. */
export const daemonConfigSchema = z
  .strictObject({
    node: z.string().min(1).describe("Name of this node; it marks the node's ports in the switch."),
    root: absolutePath.default("/var/run/vhostuser").describe("Host directory of all allocations."),
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
          .nonnegative()
          .default(120)
          .describe("Age that an allocation must have before it can be taken for abandoned."),
      })
      .prefault({}),
    pools: z.array(poolSchema).min(1),
  })
  .superRefine((config, context) => {
    for (const key of ["name", "resource"] as const) {
      const seen = new Set(key === "resource" ? [config.dataplaneResource] : []);
      for (const [index, pool] of config.pools.entries()) {
        if (seen.has(pool[key])) {
          context.addIssue({
            code: "custom",
            path: ["pools", index, key],
            message: `${pool[key]} is taken already`,
          });
        }
        seen.add(pool[key]);
      }
    }
  });

export type DaemonConfig = z.infer<typeof daemonConfigSchema>;
export type PoolConfig = DaemonConfig["pools"][number];
