// The keys of a network's configuration, with their types.
import * as z from "zod";
import { VLAN_MODES, VRF_MAX } from "../config/port-settings.ts";
import { dnsSchema } from "../ipam/addressing.ts";
import { isPluginName } from "../ipam/ipam.ts";

/** Open vSwitch' limit for a vhost port: 9728 bytes less layer 2, CRC and two VLAN tags. */
const MTU_MAX = 9702;

const interfaceSchema = z.looseObject({
  name: z.string(),
  mac: z.string().optional(),
  sandbox: z.string().optional(),
});

/** A result of plugins before us; what we do not add to passes as it is. Go plugins print `null` for empty lists. */
const resultSchema = z.looseObject({
  interfaces: z.array(interfaceSchema).nullish(),
  ips: z.array(z.looseObject({})).nullish(),
  routes: z.array(z.looseObject({})).nullish(),
  dns: dnsSchema.nullish(),
});

const attachmentsSchema = z.array(z.looseObject({ containerID: z.string(), ifname: z.string() }));

const vlanId = z.number().int().min(0).max(4094);

/** One VLAN, or a range of them with both ends, in the words of ovs-cni. */
const vlanRange = z.union(
  [
    vlanId.transform((id) => ({ minID: id, maxID: id })),
    z.strictObject({ id: vlanId }).transform(({ id }) => ({ minID: id, maxID: id })),
    z
      .strictObject({ minID: vlanId, maxID: vlanId })
      .refine(({ minID, maxID }) => minID <= maxID, { error: "minID must not be above maxID" }),
  ],
  { error: 'must be {"id": 10} or {"minID": 10, "maxID": 20} with VLANs from 0 to 4094' },
);

/** What is known and cannot be honoured (CNI spec 1.1.0, error code 2). */
const UNSUPPORTED = { params: { isUnsupported: true } } as const;

const noSubnets = z
  .array(z.unknown())
  .optional()
  .refine((subnets = []) => subnets.length === 0, {
    ...UNSUPPORTED,
    error: "leave it out: the limit is for all of the port's traffic",
  });

const bits = z.number().int().min(0);

/** The object of CNI's capability `bandwidth` (CNI conventions): bits a second, and bits. 0 means no limit. */
const bandwidthSchema = z.strictObject({
  ingressRate: bits.optional(),
  ingressBurst: bits.optional(),
  egressRate: bits.optional(),
  egressBurst: bits.optional(),
  shapedSubnets: noSubnets,
  unshapedSubnets: noSubnets,
});

/** Text that the switch's database and a runtime's argument can hold. */
const idText = z.string().min(1).max(255);

/** `"0:3,1:7"`: queue 0 on core 3, queue 1 on core 7. */
const queueCores = z
  .string()
  .regex(/^\d{1,4}:\d{1,4}(,\d{1,4}:\d{1,4})*$/, 'must be pairs of queue and core, such as "0:3,1:7"')
  .transform((text) =>
    text.split(",").map((pair): [number, number] => {
      const [queue = 0, core = 0] = pair.split(":").map(Number);
      return [queue, core];
    }),
  )
  .refine((pairs) => new Set(pairs.map(([queue]) => queue)).size === pairs.length, {
    error: "must name each queue once",
  });

/** Keys of ports of a bridge. */
export const bridgeKeys = {
  bridge: z.string().min(1).optional(),
  createBridge: z.boolean().optional(),
  vlan: vlanId.optional(),
  vlanMode: z.enum(VLAN_MODES).optional(),
  trunk: z.array(vlanRange).optional(),
  customerVlans: z.array(vlanRange).optional(),
  qinqEthertype: z.enum(["802.1ad", "802.1q"]).optional(),
  protected: z.boolean().optional(),
};

/** Keys of routed ports. */
export const routedKeys = {
  vrf: z.number().int().min(0).max(VRF_MAX).optional(),
  createVrf: z.boolean().optional(),
};

/** What a network configuration may ask of the port, beside its MTU; docs/cni.md describes each. */
export const portKeys = {
  ...bridgeKeys,
  ...routedKeys,
  mode: z.enum(["l2", "l3"]).optional(),
  bandwidth: bandwidthSchema.optional(),
  excessBandwidth: z
    .strictObject({ rate: z.number().int().positive(), burst: z.number().int().positive() })
    .optional(),
  txRetriesMax: z.number().int().min(0).max(32).optional(),
  rxqAffinity: queueCores.optional(),
  externalIds: z.record(idText, z.string().max(1024)).optional(),
  ifaceId: idText.optional(),
  portSecurity: z.boolean().optional(),
  dhcp: z.boolean().optional(),
  socketServer: z.enum(["guest", "switch"]).optional(),
};

const flag = z.boolean().optional();

/** Every key; CNI has unknown ones pass, so they are reported and left out before this is asked again. */
export const networkConfigSchema = z
  .strictObject({
    cniVersion: z.string().default("0.2.0"),
    name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]*$/, "must be a network name as CNI defines it"),
    type: z.string().optional(),
    mtu: z.number().int().min(68).max(MTU_MAX).optional(),
    mac: z.string().optional(),
    deviceID: z.string().optional(),
    ...portKeys,
    ipam: z
      .looseObject({
        /** Undefined where guests manage their addresses, which an empty one says too. */
        type: z
          .string()
          .refine((type) => type === "" || isPluginName(type), "must be the file name of a CNI plugin")
          .transform((type) => type || undefined)
          .optional(),
      })
      .nullish(),
    /** For the IPAM plugin: interfaces get the addresses of their IPAMClaim. */
    allowPersistentIPs: flag,
    dns: z.strictObject(dnsSchema.shape).nullish(),
    /** Those of the CNI conventions. */
    capabilities: z
      .strictObject({
        ...{ deviceID: flag, CNIDeviceInfoFile: flag, mac: flag, ips: flag, bandwidth: flag },
        ...{ portMappings: flag, ipRanges: flag, dns: flag, aliases: flag },
        ...{ infinibandGUID: flag, cgroupPath: flag },
      })
      .nullish(),
    ipMasq: z
      .unknown()
      .optional()
      .refine((ipMasq) => ipMasq !== true, {
        ...UNSUPPORTED,
        error: "leave it out: packets do not pass through the node's kernel",
      }),
    /** Multus adds it beside `deviceID`. */
    pciBusID: z.unknown().optional(),
    runtimeConfig: z
      .looseObject({
        deviceID: z.string().optional(),
        CNIDeviceInfoFile: z.string().optional(),
        mac: z.string().optional(),
        bandwidth: bandwidthSchema.optional(),
      })
      .nullish(),
    args: z
      .looseObject({
        cni: z.looseObject({ mac: z.string().optional(), OvnPort: z.string().max(255).optional() }).nullish(),
      })
      .nullish(),
    prevResult: resultSchema.nullish(),
    "cni.dev/valid-attachments": attachmentsSchema.nullish(),
    "cni.dev/attachments": attachmentsSchema.nullish(),
  })
  .refine(({ ipam, type }) => ipam?.type === undefined || ipam.type !== type, {
    path: ["ipam", "type"],
    error: "must not be this very plugin",
  });
