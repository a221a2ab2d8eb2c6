import { z } from "zod";
import { VLAN_MODES, VRF_MAX } from "../config/port-settings.ts";

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

const bits = z.number().int().min(0);

/** The object of CNI's capability `bandwidth` (CNI conventions): bits a second, and bits. 0 means no limit. */
export const bandwidthSchema = z.looseObject({
  ingressRate: bits.optional(),
  ingressBurst: bits.optional(),
  egressRate: bits.optional(),
  egressBurst: bits.optional(),
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

/** What a network configuration may ask of the port, beside bridge and MTU; docs/cni.md describes each. */
export const portKeys = {
  vlan: vlanId.optional(),
  vlanMode: z.enum(VLAN_MODES).optional(),
  trunk: z.array(vlanRange).optional(),
  customerVlans: z.array(vlanRange).optional(),
  qinqEthertype: z.enum(["802.1ad", "802.1q"]).optional(),
  bandwidth: bandwidthSchema.optional(),
  excessBandwidth: z
    .strictObject({ rate: z.number().int().positive(), burst: z.number().int().positive() })
    .optional(),
  txRetriesMax: z.number().int().min(0).max(32).optional(),
  rxqAffinity: queueCores.optional(),
  protected: z.boolean().optional(),
  externalIds: z.record(idText, z.string().max(1024)).optional(),
  ifaceId: idText.optional(),
  portSecurity: z.boolean().optional(),
  createBridge: z.boolean().optional(),
  mode: z.enum(["l2", "l3"]).optional(),
  vrf: z.number().int().min(0).max(VRF_MAX).optional(),
  createVrf: z.boolean().optional(),
  socketServer: z.enum(["guest", "switch"]).optional(),
};

const portKeysSchema = z.looseObject(portKeys);

/** Parsed {@link portKeys}. */
export type PortKeys = z.infer<typeof portKeysSchema>;
export type Bandwidth = z.infer<typeof bandwidthSchema>;

/** Every VLAN of a list, once, in order. */
export function expandVlans(ranges: PortKeys["trunk"]): number[] {
  const vlans = new Set<number>();
  for (const { minID, maxID } of ranges ?? []) {
    for (let vlan = minID; vlan <= maxID; vlan++) vlans.add(vlan);
  }
  return [...vlans].sort((one, other) => one - other);
}
