// The devices of a node: its network interfaces, and `cni` for networks that need none.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { stat } from "node:fs/promises";
import { networkInterfaces } from "node:os";
import { basename, dirname, join } from "node:path";
import { pciDevice } from "../dataplane/uplink.ts";
import { type Attribute, type SliceDevice, sharedCapacity } from "../dra/inventory.ts";
import { isPluginName } from "../ipam/ipam.ts";
import { present } from "../names/present.ts";
import type { DriverConfig } from "./driver-config.ts";

/** What a node offers, and where that is read. */
export interface OfferOptions {
  readonly config: DriverConfig;
  /** Where sysfs is mounted. */
  readonly sysfs: string;
  readonly pluginDirectory: string;
  /** Addresses of the node's interfaces; default the kernel's. */
  readonly addresses?: typeof networkInterfaces;
}

/** The device for plugins that use no interface of the host. */
const WITHOUT_INTERFACE = "cni";
const DNS_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const PCI_ADDRESS = /^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$/;
/** Of attributes for plugins; their names are keys in it. */
const PLUGINS_DOMAIN = "plugins.cni.dra.networking.x-k8s.io";
/** Of a device's text (resource.k8s.io/v1, DeviceAttribute), and of attributes and capacities together (Device). */
const TEXT_MAX = 64;
const ATTRIBUTES_MAX = 32;
const CAPACITIES_MAX = 2;
const EXECUTABLE = 0o111;
/** resource.k8s.io/v1, QualifiedName: a C identifier. */
const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]{0,31}$/;

/** The host interfaces behind the devices of now, by the devices' names; null for the device without one. */
export function offeredInterfaces({
  config: { interfaces },
  sysfs,
}: Pick<OfferOptions, "config" | "sysfs">): ReadonlyMap<string, string | null> {
  const top = join(sysfs, "class/net");
  const offered = readdirSync(top)
    .sort()
    .filter((name) =>
      interfaces === undefined
        ? existsSync(join(top, name, "device"))
        : interfaces.some((one) => one.name === name),
    );
  return new Map([[WITHOUT_INTERFACE, null], ...offered.map((name) => [deviceOf(name), name] as const)]);
}

/** Devices as slices have them, which claims share. */
export async function readDevices(options: OfferOptions): Promise<readonly SliceDevice[]> {
  const { config } = options;
  const plugins = await readPlugins(options);
  return Promise.all(
    [...offeredInterfaces(options)].map(async ([name, hostInterface]) => {
      const own = hostInterface === null ? {} : await readAttributes(hostInterface, options);
      const left = plugins.slice(0, ATTRIBUTES_MAX - CAPACITIES_MAX - Object.keys(own).length);
      const stated = config.interfaces?.find((one) => one.name === hostInterface);
      const { maxVirtualDevices, bandwidth } = stated ?? {};
      const capacity = sharedCapacity(present({ maxVirtualDevices }), bandwidth);
      return present({
        name,
        attributes: { ...own, ...Object.fromEntries(left.map((key) => [key, { bool: true }])) },
        allowMultipleAllocations: true as const,
        capacity: Object.keys(capacity).length === 0 ? undefined : capacity,
      });
    }),
  );
}

/** A device has a DNS label for a name, which an interface need not have; `cni` is taken. */
function deviceOf(name: string): string {
  if (DNS_LABEL.test(name) && name !== WITHOUT_INTERFACE) return name;
  return `if-${createHash("sha256").update(name).digest("hex").slice(0, 12)}`;
}

async function readAttributes(
  name: string,
  { sysfs, addresses = networkInterfaces }: OfferOptions,
): Promise<Readonly<Record<string, Attribute>>> {
  const top = join(sysfs, "class/net", name);
  const pciAddress = pciAddressOf(join(top, "device"));
  const pci = pciAddress === undefined ? {} : await pciDevice(sysfs, pciAddress);
  const ofPci = (file: string) =>
    pciAddress === undefined ? "" : read(join(sysfs, "bus/pci/devices", pciAddress, file));
  const texts = {
    interfaceName: name,
    macAddress: read(join(top, "address")),
    addresses: joined((addresses()[name] ?? []).filter(isGlobal).map(({ cidr }) => cidr ?? "")),
    "resource.kubernetes.io/pciBusID": pciAddress,
    "resource.kubernetes.io/pcieRoot": pci.pcieRoot,
    // The ids of the PCI database, without 0x.
    ...{ vendor: ofPci("vendor").replace(/^0x/, ""), product: ofPci("device").replace(/^0x/, "") },
  };
  const mtu = Number(read(join(top, "mtu")));
  const numbers = { mtu: mtu > 0 ? mtu : undefined, numaNode: pci.numaNode };
  return Object.fromEntries([
    ...Object.entries(texts).flatMap(([key, string]) => (string ? [[key, { string }]] : [])),
    ...Object.entries(numbers).flatMap(([key, int]) => (int === undefined ? [] : [[key, { int }]])),
  ]);
}

/** The PCI device of an interface, or of its virtio device; undefined for hardware on other buses. */
function pciAddressOf(link: string): string | undefined {
  try {
    const path = realpathSync(link);
    const device = basename(path).startsWith("virtio") ? dirname(path) : path;
    return PCI_ADDRESS.test(basename(device)) ? basename(device) : undefined;
  } catch {
    return undefined;
  }
}

function isGlobal({ address, internal }: { readonly address: string; readonly internal: boolean }): boolean {
  return !internal && !/^(fe[89ab]|169\.254\.)/i.test(address);
}

/** As many as an attribute has room for: lists are alpha (DRAListTypeAttributes). */
function joined(texts: readonly string[]): string {
  return texts.reduce((all, text) => {
    const longer = all === "" ? text : `${all},${text}`;
    return longer.length > TEXT_MAX ? all : longer;
  }, "");
}

/** Keys of attributes for the plugins that are there, first for those that claims may use. */
async function readPlugins({ config, pluginDirectory }: OfferOptions): Promise<readonly string[]> {
  const names = listed(pluginDirectory).filter(isPluginName);
  const there = await Promise.all(
    names.map((name) =>
      stat(join(pluginDirectory, name)).then(
        (found) => (found.isFile() && (found.mode & EXECUTABLE) > 0 ? [name] : []),
        () => [],
      ),
    ),
  );
  const isAllowed = (name: string) => Object.hasOwn(config.allowedPlugins, name);
  const sorted = there.flat().sort();
  const keys = [...sorted.filter(isAllowed), ...sorted.filter((name) => !isAllowed(name))]
    .map((name) => name.replaceAll(/[-.+]/g, "_"))
    .filter((key) => IDENTIFIER.test(key));
  return [...new Set(keys)].map((key) => `${PLUGINS_DOMAIN}/${key}`);
}

/** Empty for a directory that is not there. */
function listed(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

/** Empty for an interface that is gone meanwhile. */
function read(file: string): string {
  try {
    return readFileSync(file, "utf8").trim();
  } catch {
    return "";
  }
}
