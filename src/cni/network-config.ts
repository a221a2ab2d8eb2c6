import { z } from "zod";
import { Failure } from "../failure/failure.ts";
import { type CniVersion, checkCniVersion } from "./cni-version.ts";

/** Open vSwitch' limit for a vhost port: 9728 bytes less layer 2, CRC and two VLAN tags. */
const MTU_MAX = 9702;

const interfaceSchema = z.looseObject({
  name: z.string(),
  mac: z.string().optional(),
  sandbox: z.string().optional(),
});

/** Unknown keys pass, as the CNI specification demands; ours are checked. */
const networkConfigSchema = z.looseObject({
  cniVersion: z.string().default("0.2.0"),
  name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]*$/, "must be a network name as CNI defines it"),
  bridge: z.string().min(1).optional(),
  mtu: z.number().int().min(68).max(MTU_MAX).optional(),
  mac: z.string().optional(),
  deviceID: z.string().optional(),
  ipam: z.looseObject({ type: z.string().optional() }).optional(),
  runtimeConfig: z
    .looseObject({
      deviceID: z.string().optional(),
      CNIDeviceInfoFile: z.string().optional(),
      mac: z.string().optional(),
    })
    .optional(),
  args: z.looseObject({ cni: z.looseObject({ mac: z.string().optional() }).nullish() }).nullish(),
  prevResult: z.looseObject({ interfaces: z.array(interfaceSchema).optional() }).optional(),
  "cni.dev/valid-attachments": z
    .array(z.looseObject({ containerID: z.string(), ifname: z.string() }))
    .optional(),
  "cni.dev/attachments": z.array(z.looseObject({ containerID: z.string(), ifname: z.string() })).optional(),
});

export type NetworkConfig = z.infer<typeof networkConfigSchema> & {
  readonly cniVersion: CniVersion;
};

/** Parses a plugin's stdin. @throws Failure `invalid-request` (no JSON), `invalid-network-config`, `unsupported-cni-version` */
export function parseNetworkConfig(stdin: Buffer): NetworkConfig {
  let json: unknown;
  try {
    json = JSON.parse(stdin.toString("utf8"));
  } catch (error) {
    throw new Failure({
      code: "undecodable",
      what: `the network configuration is not JSON: ${String(error)}`,
      where: "stdin",
      cause: error,
    });
  }
  const parsed = networkConfigSchema.safeParse(json);
  if (!parsed.success) {
    const problems = parsed.error.issues.map(
      (issue) => `${issue.path.join(".") || "(top)"}: ${issue.message}`,
    );
    throw new Failure({
      code: "invalid-network-config",
      what: problems.join("; "),
      where: "network configuration",
      fix: "correct the config of the NetworkAttachmentDefinition",
    });
  }
  if (parsed.data.ipam?.type !== undefined) {
    throw new Failure({
      code: "unsupported-field",
      what: `ipam.type ${JSON.stringify(parsed.data.ipam.type)}: address management is not delegated yet`,
      where: "network configuration, key ipam",
      fix: "leave ipam out; the guest configures its addresses",
    });
  }
  return { ...parsed.data, cniVersion: checkCniVersion(parsed.data.cniVersion) };
}
