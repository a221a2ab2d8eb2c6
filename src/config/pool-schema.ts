// A pool's keys in the configuration file.
import { isAbsolute, normalize } from "node:path";
import * as z from "zod";
import { CLAIMS_DIRECTORY, isPoolName, POOL_NAME_MAX } from "../names/device-id.ts";
import { isSelinuxLabel } from "../names/directory-ownership.ts";
import { isResourceName } from "../names/resource-name.ts";
import { CLAIM_DEFAULT_KEYS, CLAIM_KEYS } from "./claim-keys.ts";

/** A path that can be compared as text. */
export const absolutePath = z
  .string()
  .refine((path) => isAbsolute(path) && normalize(path) === path && (path === "/" || !path.endsWith("/")), {
    error: "must be an absolute path without '.', '..' or a slash at its end",
  });

/** An extended resource of Kubernetes. */
export const resourceName = z
  .string()
  .refine(isResourceName, { error: "must be an extended resource name such as vhostuser/sockets" });

const unsignedId = z.number().int().min(0).max(0xfffffffe);

const octalMode = z
  .string()
  .regex(/^[0-7]?7[0-7]{2}$/, {
    error: 'must be an octal mode in quotes in which the owner has all rights, such as "2770"',
  })
  .transform((text) => Number.parseInt(text, 8));

const bridge = z
  .string()
  .min(1)
  .describe(
    "Bridge that ports join when the network names none; for VPP the number or the tag of a bridge domain.",
  );

/** Kinds of switches; one node may have pools of both. */
export const dataplaneSchema = z.discriminatedUnion(
  "type",
  [
    z.strictObject({
      type: z.literal("ovs-dpdk").describe("Kind of switch."),
      database: absolutePath
        .default("/var/run/openvswitch/db.sock")
        .describe("Unix socket of ovsdb-server, as the daemon sees it."),
      runDirectory: absolutePath
        .optional()
        .describe(
          "Directory of the bridges' OpenFlow sockets, for port security and announcements; default is that of `database`.",
        ),
      bridge,
    }),
    z.strictObject({
      type: z.literal("vpp").describe("Kind of switch."),
      apiSocket: absolutePath
        .default("/run/vpp/api.sock")
        .describe("Socket of VPP's binary API (`socksvr` in its startup.conf), as the daemon sees it."),
      bridge,
    }),
  ],
  { error: "must be the kind of a switch: ovs-dpdk or vpp" },
);

const directorySchema = z.strictObject({
  owner: unsignedId.default(107).describe("uid of the directories in an allocation; 107 is KubeVirt's QEMU."),
  group: unsignedId.default(107).describe("gid, usually a group that the switch runs with."),
  mode: octalMode.prefault("2770").describe("Mode in octal; setgid makes sockets carry the group."),
  selinuxLabel: z
    .string()
    .refine(isSelinuxLabel, {
      error: "must be an SELinux context such as system_u:object_r:container_file_t:s0",
    })
    .optional()
    .describe("SELinux context of the directories; without categories, so that any pod may use it."),
});

const claimsSchema = z.strictObject({
  ports: z
    .number()
    .int()
    .min(0)
    .max(10_000)
    .describe("How many of `capacity` go to claims; the device plugin offers the others."),
  bandwidth: z
    .number()
    .int()
    .positive()
    .optional()
    .describe(
      "Bits a second that claims share, if the scheduler is to count them: a request says how much of it its ports take (`capacity.requests`), which also is their limit.",
    ),
  mayConfigure: z
    .array(z.enum(CLAIM_KEYS))
    .default([...CLAIM_DEFAULT_KEYS])
    .describe("Keys that a claim itself may set; a DeviceClass may set all (docs/dra.md)."),
});

/** One pool of devices, and its switch. */
const poolSchema = z.strictObject({
  resource: resourceName
    .default("vhostuser/sockets")
    .describe("Extended resource that pods request; each pool has its own, so only one can leave it out."),
  capacity: z.number().int().min(1).max(10_000).describe("Number of devices."),
  claims: claimsSchema.optional(),
  dataplane: dataplaneSchema,
  numaNode: z
    .union([z.enum(["auto", "none"]), z.number().int().min(0).max(1023)], {
      error: "must be auto, none or the number of a NUMA node",
    })
    .default("auto")
    .describe(
      "NUMA node of the devices in kubelet's list. `auto`: that of the bridge's physical DPDK ports if they share one.",
    ),
  directory: directorySchema.prefault({}),
  socketServer: z
    .enum(["guest", "switch"])
    .optional()
    .describe(
      "Which side serves the pool's sockets: `guest` (the default) for VMs; `switch` for DPDK programs that connect, which lose their port when the switch restarts. A pod keeps what it was allocated with.",
    ),
  switchSockets: absolutePath
    .optional()
    .describe(
      "Directory where the switch creates the sockets that it serves (Open vSwitch's `vhost-sock-dir`), as the daemon sees it: below `root`, but not in an allocation. Needed if the switch serves sockets.",
    ),
});

/** The pools by their names; what reads the configuration gets a list. */
export const poolsSchema = z
  .record(z.string(), poolSchema, { error: "must be a map of pools by their names" })
  .describe("Pools by their names, which are part of device ids and of the path that pods see.")
  .superRefine((pools, context) => {
    if (Object.keys(pools).length === 0) context.addIssue({ code: "custom", message: "a pool is needed" });
    for (const name of Object.keys(pools).filter((one) => !isPoolName(one))) {
      const message = `a pool's name must be a DNS label of at most ${POOL_NAME_MAX} characters`;
      context.addIssue({ code: "custom", path: [name], message });
    }
    for (const { path, message } of wrongClaims(pools)) {
      context.addIssue({ code: "custom", path: [...path], message });
    }
  })
  .transform((pools) => Object.entries(pools).map(([name, pool]) => ({ name, ...pool })));

/** What claims of these pools, or their paths and devices, would be mixed up with. */
function wrongClaims(pools: Readonly<Record<string, z.infer<typeof poolSchema>>>) {
  return Object.entries(pools).flatMap(([name, { capacity, claims }]) => {
    if (name === CLAIMS_DIRECTORY)
      return [{ path: [name], message: "is the directory of claims in pods: choose another name" }];
    if (claims === undefined) return [];
    const path = [name, "claims"];
    const wrong = [];
    if (claims.ports > capacity)
      wrong.push({
        path: [...path, "ports"],
        message: `must not be more than the pool's capacity, ${capacity}`,
      });
    // A socket's device is <pool>--<number>.
    if (/--\d+$/.test(name))
      wrong.push({ path, message: "a pool with claims must not have a name that ends with -- and a number" });
    return wrong;
  });
}
