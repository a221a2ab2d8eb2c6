import { z } from "zod";
import { Failure } from "../failure/failure.ts";
import {
  hashedPodInterfaceName,
  isInterfaceName,
  isOrdinalPodInterfaceName,
} from "../names/interface-name.ts";
import { isUnicastMac, parseMacAddress } from "../names/mac-address.ts";
import type { PciAddress } from "./domain-xml/interface.ts";
import { queuePairs } from "./queue-pairs.ts";
import { readJson } from "./read-json.ts";

/** What the sidecar needs of a VirtualMachineInstance. */
export interface Vmi {
  /** `<namespace>/<name>`, for messages. */
  readonly name: string;
  /** Names of all interfaces, in VMI order. */
  readonly order: readonly string[];
  /** The interfaces of our binding that the VM has or shall have, in VMI order. */
  readonly interfaces: readonly VmiInterface[];
  /** Whether the VM has interfaces of our binding that KubeVirt is taking away. */
  readonly unplugging: boolean;
  /** Queue pairs of each NIC; undefined where the VMI doesn't ask for several queues. */
  readonly queues: number | undefined;
  /** Whether the guest's memory is encrypted, so that devices need the IOMMU's addresses. */
  readonly launchSecurity: boolean;
  /** Whether a NIC that is not booted from gets no option ROM, which KubeVirt does on amd64 only. */
  readonly romTuning: boolean;
  /** Whether a live migration is under way: this pod is then its target, for hooks are not called on its source. */
  readonly migrating: boolean;
}

/** One interface of our binding. */
export interface VmiInterface {
  /** Name of the interface, and of its network: KubeVirt wants both the same. */
  readonly name: string;
  /** The interface's name in the pod. */
  readonly podInterfaceName: string;
  /** libvirt's model. */
  readonly model: string;
  readonly mac: string | undefined;
  readonly bootOrder: number | undefined;
  readonly acpiIndex: number | undefined;
  readonly pciAddress: PciAddress | undefined;
  readonly linkDown: boolean;
}

const interfaceSchema = z.object({
  name: z.string().min(1),
  binding: z.object({ name: z.string() }).nullish(),
  model: z.string().nullish(),
  macAddress: z.string().nullish(),
  bootOrder: z.int().positive().nullish(),
  acpiIndex: z.int().nonnegative().nullish(),
  pciAddress: z.string().nullish(),
  state: z.string().nullish(),
});

const quantities = z.record(z.string(), z.union([z.string(), z.number()])).nullish();
const count = z.int().nonnegative().nullish();

const vmiSchema = z.object({
  metadata: z.object({ name: z.string(), namespace: z.string().nullish() }),
  spec: z.object({
    architecture: z.string().nullish(),
    domain: z.object({
      cpu: z.object({ cores: count, sockets: count, threads: count }).nullish(),
      resources: z.object({ requests: quantities, limits: quantities }).nullish(),
      launchSecurity: z.unknown().optional(),
      devices: z.object({
        networkInterfaceMultiqueue: z.boolean().nullish(),
        useVirtioTransitional: z.boolean().nullish(),
        interfaces: z.array(interfaceSchema).nullish(),
      }),
    }),
    networks: z
      .array(
        z.object({
          name: z.string(),
          pod: z.unknown().optional(),
          multus: z.object({ default: z.boolean().nullish() }).nullish(),
        }),
      )
      .nullish(),
  }),
  status: z
    .object({
      interfaces: z
        .array(z.object({ name: z.string().nullish(), podInterfaceName: z.string().nullish() }))
        .nullish(),
      migrationState: z.object({ completed: z.boolean().nullish(), failed: z.boolean().nullish() }).nullish(),
    })
    .nullish(),
});

type RawVmi = z.infer<typeof vmiSchema>;
type RawInterface = z.infer<typeof interfaceSchema>;

/**
 * Reads a VMI as virt-launcher sends it.
 * @param binding the name that our plugin is registered under in the KubeVirt CR
 * @throws Failure `invalid-vmi`
 */
export function parseVmi(json: string, binding: string): Vmi {
  const raw = readJson(json, {
    schema: vmiSchema,
    code: "invalid-vmi",
    where: "the VMI that virt-launcher sent",
    fix: "check that this KubeVirt release is among those that the compatibility table names",
  });
  const name = `${raw.metadata.namespace ?? "default"}/${raw.metadata.name}`;
  const listed = raw.spec.domain.devices.interfaces ?? [];
  // KubeVirt keeps an interface that is being unplugged as `absent` and gives it no place in the domain.
  const ours = listed.filter((one) => one.binding?.name === binding);
  const wanted = ours.filter((one) => one.state !== "absent");
  return {
    name,
    order: listed.map((one) => one.name),
    interfaces: wanted.map((one) => toInterface(one, raw, `VMI ${name}, interface ${one.name}`)),
    unplugging: wanted.length < ours.length,
    queues:
      raw.spec.domain.devices.networkInterfaceMultiqueue === true ? queuePairs(raw.spec.domain) : undefined,
    launchSecurity: (raw.spec.domain.launchSecurity ?? undefined) !== undefined,
    romTuning: (raw.spec.architecture ?? "amd64") === "amd64",
    migrating: isMigrating(raw),
  };
}

function isMigrating(raw: RawVmi): boolean {
  const state = raw.status?.migrationState ?? undefined;
  return state !== undefined && state.completed !== true && state.failed !== true;
}

function toInterface(one: RawInterface, raw: RawVmi, where: string): VmiInterface {
  return {
    name: one.name,
    podInterfaceName: podInterfaceName(one.name, raw, where),
    model: model(one, raw, where),
    mac: one.macAddress ? mac(one.macAddress, where) : undefined,
    bootOrder: one.bootOrder ?? undefined,
    acpiIndex: one.acpiIndex || undefined,
    pciAddress: one.pciAddress ? pciAddress(one.pciAddress, where) : undefined,
    linkDown: one.state === "down",
  };
}

/** KubeVirt's rule: what the status says, else by the scheme that the pod's other interfaces have. */
function podInterfaceName(name: string, raw: RawVmi, where: string): string {
  const inStatus = raw.status?.interfaces ?? [];
  const known = inStatus.find((one) => one.name === name)?.podInterfaceName;
  if (known) {
    if (isInterfaceName(known)) return known;
    throw invalid(
      `podInterfaceName ${JSON.stringify(known)} is no interface name`,
      where,
      "report it to KubeVirt",
    );
  }
  const networks = raw.spec.networks ?? [];
  const network = networks.find((one) => one.name === name);
  if (network === undefined) {
    throw invalid(
      `no network is named ${JSON.stringify(name)}`,
      where,
      "give the network the interface's name",
    );
  }
  const isPrimary = (one: (typeof networks)[number]) =>
    (one.pod ?? undefined) !== undefined || one.multus?.default === true;
  if (isPrimary(network)) return "eth0";
  const isOrdinal = inStatus.some((one) => isOrdinalPodInterfaceName(one.podInterfaceName ?? ""));
  if (!isOrdinal) return hashedPodInterfaceName(name);
  return `net${networks.filter((one) => !isPrimary(one)).indexOf(network) + 1}`;
}

/** KubeVirt's rule for virtio; QEMU has vhost-user for no other model. */
function model(one: RawInterface, raw: RawVmi, where: string): string {
  const asked = one.model || "virtio";
  if (asked !== "virtio") {
    if (asked.startsWith("virtio")) return asked;
    throw invalid(
      `model ${JSON.stringify(asked)} has no vhost-user`,
      where,
      "remove the model, or set it to virtio",
    );
  }
  if (raw.spec.architecture === "s390x") return "virtio";
  const transitional = raw.spec.domain.devices.useVirtioTransitional === true;
  return transitional ? "virtio-transitional" : "virtio-non-transitional";
}

function mac(text: string, where: string): string {
  const parsed = parseMacAddress(text);
  if (parsed !== undefined && isUnicastMac(parsed)) return parsed;
  throw invalid(
    `macAddress ${JSON.stringify(text)} is no unicast MAC address`,
    where,
    "write it as 02:00:00:00:00:01",
  );
}

function pciAddress(text: string, where: string): PciAddress {
  const match = /^([0-9a-f]{4}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])$/i.exec(text);
  const [, domain, bus, slot, pciFunction] = match ?? [];
  if (domain === undefined || bus === undefined || slot === undefined || pciFunction === undefined) {
    throw invalid(`pciAddress ${JSON.stringify(text)} is none`, where, "write it as 0000:81:01.0");
  }
  return { domain, bus, slot, function: pciFunction };
}

function invalid(what: string, where: string, fix: string): Failure {
  return new Failure({ code: "invalid-vmi", what, where, fix });
}
