import * as z from "zod";
import { vhostUserDeviceInfoSchema } from "../allocation/device-info.ts";
import { Failure } from "../failure/failure.ts";
import { parseUnicastMac } from "../names/mac-address.ts";
import { type Clock, systemClock } from "../sync/clock.ts";
import { readBounded, readJson } from "./read-json.ts";

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
  if (deviceInfo.type !== "vhost-user") {
    throw invalidInfo(
      `its device-info is of type ${JSON.stringify(deviceInfo.type)}, not "vhost-user"`,
      where,
      "use a NetworkAttachmentDefinition of type kube-vhostuser for this network",
    );
  }
  const parsed = vhostUserDeviceInfoSchema.safeParse(deviceInfo);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const what = `deviceInfo.${issue?.path.join(".") ?? ""}: ${issue?.message ?? "wrong"}`;
    throw invalidInfo(what, where, "correct the CNI or device plugin that wrote it");
  }
  const { mode, path } = parsed.data["vhost-user"];
  if (mode === "server") return path;
  throw invalidInfo(
    `its device-info has mode ${JSON.stringify(mode)}, so QEMU would have to connect and the VM could not outlive a restart of the switch`,
    where,
    'let the switch be the client (OVS: dpdkvhostuserclient) and the device-info say "server"',
  );
}

/** @throws Failure `invalid-network-info` */
export function checkMac(text: string, where: string): string {
  const parsed = parseUnicastMac(text);
  if (parsed !== undefined) return parsed;
  throw invalidInfo(
    `mac ${JSON.stringify(text)} is no unicast MAC address`,
    where,
    "correct what the CNI plugin or DRA driver of this network says",
  );
}

/** @throws Failure `invalid-network-info` */
export function checkMtu(mtu: number, where: string): number {
  if (mtu >= SMALLEST_MTU && mtu <= LARGEST_MTU) return mtu;
  throw invalidInfo(
    `mtu ${mtu} is not between ${SMALLEST_MTU} and ${LARGEST_MTU}`,
    where,
    "correct the MTU of the network or of the switch's bridge",
  );
}

/** What is thrown for network-info or DRA metadata that cannot be used. */
export function invalidInfo(what: string, where: string, fix: string): Failure {
  return new Failure({ code: "invalid-network-info", what, where, fix });
}

/** How {@link waitForNetworks} waits. */
export interface WaitOptions {
  /** The downward API's file. */
  readonly file: string;
  /** Milliseconds. */
  readonly budgetMs: number;
  readonly pollMs?: number;
  readonly clock?: Clock;
  readonly signal?: AbortSignal;
}

/**
 * Waits until the file lists every network. virt-controller writes the annotation behind it only once the pod is
 * Ready, so it is empty at first; kubelet replaces it as a whole, so it is never torn.
 * @returns the entries by network name
 * @throws Failure `network-info-timeout`, `invalid-network-info`, or the signal's reason
 */
export async function waitForNetworks(
  networks: readonly string[],
  options: WaitOptions,
): Promise<ReadonlyMap<string, NetworkEntry>> {
  const { file, budgetMs, pollMs = 100, clock = systemClock, signal } = options;
  if (networks.length === 0) return new Map();
  const deadline = clock.monotonic() + budgetMs;
  for (;;) {
    signal?.throwIfAborted();
    const text = readBounded(file, "invalid-network-info");
    const listed =
      text === undefined || text.trim() === "" ? new Map() : parseNetworkInfo(text, file, networks);
    if (networks.every((network) => listed.has(network))) return listed;
    const left = deadline - clock.monotonic();
    if (left <= 0) throw notListed(networks, text, [...listed.keys()], file, budgetMs);
    await clock.sleep(Math.min(pollMs, left), signal);
  }
}

function notListed(
  networks: readonly string[],
  text: string | undefined,
  listed: readonly string[],
  where: string,
  budgetMs: number,
): Failure {
  const missing = networks.filter((network) => !listed.includes(network)).join(", ");
  const state =
    text === undefined
      ? "the file is not there"
      : text.trim() === ""
        ? "the file is empty"
        : "others are listed";
  return new Failure({
    code: "network-info-timeout",
    what: `KubeVirt did not list network ${missing} within ${Math.round(budgetMs / 1000)} s: ${state}`,
    where,
    fix:
      text === undefined
        ? "register the binding with `downwardAPI: device-info` in the KubeVirt CR"
        : "check that Multus attached the network (annotation k8s.v1.cni.cncf.io/network-status of the pod)",
  });
}
