import { z } from "zod";
import { vhostUserDeviceInfoSchema } from "../allocation/device-info.ts";
import { Failure } from "../failure/failure.ts";
import { isUnicastMac, parseMacAddress } from "../names/mac-address.ts";
import { readJson } from "./read-json.ts";

/** What KubeVirt's downward API, or a DRA driver, says of one of the pod's networks. */
export interface NetworkEntry {
  /** Socket as the compute container sees it, unchecked; undefined where the entry has no device-info. */
  readonly socketPath: string | undefined;
  readonly mac: string | undefined;
  readonly mtu: number | undefined;
}

const LARGEST_MTU = 65_535;
/** Smallest that IPv4 allows (RFC 791). */
const SMALLEST_MTU = 68;

const fileSchema = z.object({
  interfaces: z
    .array(
      z.object({
        network: z.string(),
        deviceInfo: z.looseObject({ type: z.string() }).nullish(),
        mac: z.string().nullish(),
        mtu: z.int().nullish(),
      }),
    )
    .nullish(),
});

/**
 * The entries of `networks` in a network-info text. Entries of other networks, for example SR-IOV, are not looked into.
 * @throws Failure `invalid-network-info`
 */
export function parseNetworkInfo(
  text: string,
  where: string,
  networks: readonly string[],
): Map<string, NetworkEntry> {
  const { interfaces } = readJson(text, {
    schema: fileSchema,
    code: "invalid-network-info",
    where,
    fix: "KubeVirt writes this file; check the pod's annotation kubevirt.io/network-info",
  });
  const entries = new Map<string, NetworkEntry>();
  for (const { network, deviceInfo, mac, mtu } of interfaces ?? []) {
    if (!networks.includes(network)) continue;
    const place = `${where}, network ${network}`;
    entries.set(network, {
      socketPath: deviceInfo ? socketPath(deviceInfo, place) : undefined,
      mac: mac ? checkMac(mac, place) : undefined,
      mtu: mtu ? checkMtu(mtu, place) : undefined,
    });
  }
  return entries;
}

function socketPath(deviceInfo: { readonly type: string }, where: string): string {
  const writer = "correct the CNI or device plugin that wrote it";
  if (deviceInfo.type !== "vhost-user") {
    throw new Failure({
      code: "invalid-network-info",
      what: `its device-info is of type ${JSON.stringify(deviceInfo.type)}, not "vhost-user"`,
      where,
      fix: "use a NetworkAttachmentDefinition of type kube-vhostuser for this network",
    });
  }
  const parsed = vhostUserDeviceInfoSchema.safeParse(deviceInfo);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const key = issue?.path.join(".") ?? "";
    throw new Failure({
      code: "invalid-network-info",
      what: `deviceInfo.${key}: ${issue?.message ?? "wrong"}`,
      where,
      fix: writer,
    });
  }
  const { mode, path } = parsed.data["vhost-user"];
  if (mode !== "server") {
    throw new Failure({
      code: "invalid-network-info",
      what: `its device-info has mode ${JSON.stringify(mode)}, so QEMU would have to connect and the VM could not outlive a restart of the switch`,
      where,
      fix: 'let the switch be the client (OVS: dpdkvhostuserclient) and the device-info say "server"',
    });
  }
  return path;
}

/** @throws Failure `invalid-network-info` */
export function checkMac(text: string, where: string): string {
  const parsed = parseMacAddress(text);
  if (parsed !== undefined && isUnicastMac(parsed)) return parsed;
  throw new Failure({
    code: "invalid-network-info",
    what: `mac ${JSON.stringify(text)} is no unicast MAC address`,
    where,
    fix: "correct what the CNI plugin or DRA driver of this network says",
  });
}

/** @throws Failure `invalid-network-info` */
export function checkMtu(mtu: number, where: string): number {
  if (mtu >= SMALLEST_MTU && mtu <= LARGEST_MTU) return mtu;
  throw new Failure({
    code: "invalid-network-info",
    what: `mtu ${mtu} is not between ${SMALLEST_MTU} and ${LARGEST_MTU}`,
    where,
    fix: "correct the MTU of the network or of the switch's bridge",
  });
}
