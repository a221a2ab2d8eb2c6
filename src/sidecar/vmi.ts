import { Failure } from "../failure/failure.ts";
import {
  hashedPodInterfaceName,
  isInterfaceName,
  isOrdinalPodInterfaceName,
} from "../names/interface-name.ts";
import { parseUnicastMac } from "../names/mac-address.ts";
import type { IommuModel } from "./domain-xml/iommu.ts";
import type { ClaimRequest } from "./dra-metadata.ts";
import { type InterfaceSettings, parseInterfaceSettings, SETTINGS_ANNOTATION } from "./interface-settings.ts";
import { readJson } from "./read-json.ts";
import { type RawInterface, type RawVmi, vmiSchema } from "./vmi-schema.ts";

const ROOT_COMPLEX_ANNOTATION = "kubevirt.io/placePCIDevicesOnRootComplex";

/** What the sidecar needs of a VirtualMachineInstance. */
export interface Vmi {
  /** `<namespace>/<name>`, for messages. */
  readonly name: string;
  /** Names of all interfaces, in VMI order. */
  readonly order: readonly string[];
  /** The interfaces of our binding that the VM has or shall have, in VMI order. */
  readonly interfaces: readonly VmiInterface[];
  /** Whether the VM has interfaces of our binding that KubeVirt is unplugging. */
  readonly unplugging: boolean;
  /** The IOMMU that the guest gets; undefined where no interface asks for one. */
  readonly iommu: IommuModel | undefined;
  /** Whether the guest's memory is encrypted, so that devices need the IOMMU's addresses. */
  readonly launchSecurity: boolean;
  /** Whether KubeVirt puts PCI devices on the root bus, without root ports. */
  readonly onRootComplex: boolean;
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
  /** The network's DRA claim; undefined where Multus attaches it. */
  readonly claim: ClaimRequest | undefined;
  /** Queue pairs; undefined where the VMI doesn't ask for several queues. */
  readonly queues: number | undefined;
  readonly settings: InterfaceSettings;
}

/** A PCI address, each part in hex with `0x`. */
export interface PciAddress {
  readonly domain: string;
  readonly bus: string;
  readonly slot: string;
  readonly function: string;
}

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
    fix: "check that docs/kubevirt-versions.md names this KubeVirt release",
  });
  const name = `${raw.metadata.namespace ?? "default"}/${raw.metadata.name}`;
  const listed = raw.spec.domain.devices.interfaces ?? [];
  // KubeVirt keeps an interface that is being unplugged as `absent` and gives it no place in the domain.
  const ours = listed.filter((one) => one.binding?.name === binding);
  const wanted = ours.filter((one) => one.state !== "absent");
  const annotation = raw.metadata.annotations?.[SETTINGS_ANNOTATION];
  const settings = parseInterfaceSettings(
    annotation,
    ours.map((one) => one.name),
    name,
  );
  const interfaces = wanted.map((one) =>
    toInterface(one, settings.get(one.name) ?? {}, raw, `VMI ${name}, interface ${one.name}`),
  );
  return {
    name,
    order: listed.map((one) => one.name),
    interfaces,
    unplugging: wanted.length < ours.length,
    iommu: interfaces.some((one) => one.settings.iommu === true) ? iommuModel(raw, `VMI ${name}`) : undefined,
    launchSecurity: (raw.spec.domain.launchSecurity ?? undefined) !== undefined,
    onRootComplex:
      raw.metadata.annotations?.[ROOT_COMPLEX_ANNOTATION] === "true" && raw.spec.architecture !== "s390x",
    romTuning: (raw.spec.architecture ?? "amd64") === "amd64",
    migrating: isMigrating(raw),
  };
}

function isMigrating(raw: RawVmi): boolean {
  const state = raw.status?.migrationState ?? undefined;
  return state !== undefined && state.completed !== true && state.failed !== true;
}

function toInterface(
  one: RawInterface,
  settings: InterfaceSettings,
  raw: RawVmi,
  where: string,
): VmiInterface {
  return {
    name: one.name,
    podInterfaceName: podInterfaceName(one.name, raw, where),
    model: model(one, raw, where),
    mac: one.macAddress ? mac(one.macAddress, where) : undefined,
    bootOrder: one.bootOrder ?? undefined,
    acpiIndex: one.acpiIndex || undefined,
    pciAddress: one.pciAddress ? pciAddress(one.pciAddress, where) : undefined,
    linkDown: one.state === "down",
    claim: claim(one.name, raw, where),
    queues: queues(settings, raw, where),
    settings,
  };
}

function queues({ queues: asked }: InterfaceSettings, raw: RawVmi, where: string): number | undefined {
  const isMultiqueue = raw.spec.domain.devices.networkInterfaceMultiqueue === true;
  const most = isMultiqueue ? queuePairs(raw.spec.domain) : 1;
  if (asked !== undefined && asked > most) {
    throw invalid(
      `it asks for ${asked} queues and can have ${most}`,
      `${where}, annotation ${SETTINGS_ANNOTATION}`,
      isMultiqueue
        ? "a NIC has one queue for each vCPU that the guest starts with, at most 256"
        : "set networkInterfaceMultiqueue to true: without it a NIC has one queue",
    );
  }
  return isMultiqueue ? (asked ?? most) : undefined;
}

/** KubeVirt's limit of queue pairs per NIC. */
const QUEUE_PAIRS_MAX = 256;

/**
 * KubeVirt's rule for several queues: one pair per vCPU that the guest starts with (not those that can be
 * plugged), at most 256. With no topology the sockets are the CPU limit, else the request, rounded up, else 1.
 */
export function queuePairs({ cpu, resources }: Pick<RawVmi["spec"]["domain"], "cpu" | "resources">): number {
  const { cores, sockets, threads } = cpu ?? {};
  const vcpus =
    !cores && !sockets && !threads
      ? wholeCpus(resources?.limits?.["cpu"] ?? resources?.requests?.["cpu"])
      : (cores || 1) * (sockets || 1) * (threads || 1);
  return Math.min(vcpus, QUEUE_PAIRS_MAX);
}

/** A Kubernetes quantity of CPUs, rounded up; 1 where none is given. Suffixes that no CPU count has give 1. */
function wholeCpus(quantity: string | number | undefined): number {
  const match = /^(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(m?)$/i.exec(String(quantity ?? ""));
  const value = Number(match?.[1] ?? 1);
  return Math.max(1, Math.ceil(match?.[2] === "m" ? value / 1000 : value));
}

/** A claim of the VM, or one that Kubernetes makes for the pod; each is at a place of its own in a container. */
function claim(name: string, raw: RawVmi, where: string): ClaimRequest | undefined {
  const asked = raw.spec.networks?.find((one) => one.name === name)?.resourceClaim ?? undefined;
  if (asked === undefined) return undefined;
  const { claimName, requestName: request } = asked;
  const found = raw.spec.resourceClaims?.find((one) => one.name === claimName);
  const named = found?.resourceClaimName || undefined;
  if (!claimName || !request || found === undefined) {
    throw invalid(
      `its network's resourceClaim names claim ${JSON.stringify(claimName ?? "")} and request ${JSON.stringify(request ?? "")}`,
      where,
      "name a claim of spec.resourceClaims, and one of that claim's requests",
    );
  }
  const parts = {
    kind: named === undefined ? "template" : "claim",
    claim: named ?? claimName,
    request,
  } as const;
  for (const part of [parts.claim, parts.request]) {
    // They become directory names.
    if (/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/.test(part) && !part.includes("..")) continue;
    throw invalid(
      `${JSON.stringify(part)} is no name of a claim or request`,
      where,
      "use the name in Kubernetes",
    );
  }
  return parts;
}

/** What QEMU can put a virtio NIC behind. */
function iommuModel(raw: RawVmi, where: string): IommuModel {
  const architecture = raw.spec.architecture ?? "amd64";
  if (architecture === "arm64") return "smmuv3";
  const machine = raw.spec.domain.machine?.type || "q35";
  if (architecture === "amd64" && machine.includes("q35")) return "intel";
  throw invalid(
    `there is no virtual IOMMU for architecture ${JSON.stringify(architecture)} and machine ${JSON.stringify(machine)}`,
    `${where}, annotation ${SETTINGS_ANNOTATION}`,
    "remove iommu, or use machine type q35 on amd64, or arm64",
  );
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
  const parsed = parseUnicastMac(text);
  if (parsed !== undefined) return parsed;
  throw invalid(
    `macAddress ${JSON.stringify(text)} is no unicast MAC address`,
    where,
    "write it as 02:00:00:00:00:01",
  );
}

function pciAddress(text: string, where: string): PciAddress {
  const match = /^([0-9a-f]{4}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])$/i.exec(text);
  if (match === null) {
    const what = `pciAddress ${JSON.stringify(text)} is not a PCI address`;
    throw invalid(what, where, "write it as 0000:81:01.0");
  }
  const [domain, bus, slot, pciFunction] = match.slice(1).map((part) => `0x${part}`);
  return { domain, bus, slot, function: pciFunction } as PciAddress;
}

function invalid(what: string, where: string, fix: string): Failure {
  return new Failure({ code: "invalid-vmi", what, where, fix });
}
