import { type Logger, silentLogger } from "../../../src/logging/logger.ts";
import { type ConverterOptions, convertVmi, domainName, virtioModel } from "./converter.ts";
import { habitsOf, type KubevirtVersion, minor } from "./habits.ts";
import { type CollectedHook, HookManager } from "./hook-manager.ts";
import { lossyDomain } from "./lossy-domain.ts";
import { applyPluginHooks, type StructuredPlugin } from "./plugin-hooks.ts";
import type { VirtualMachineInstance } from "./vmi.ts";
import { child, node, parseXml, printXml, withChild, type XmlNode } from "./xml-tree.ts";

/** What of libvirt virt-launcher uses to define a VM: the real one through virsh, or a stand-in. */
export interface Libvirt {
  define(xml: string): Promise<void>;
  /** The persistent definition, with the addresses that libvirt gave. */
  dumpInactiveXml(name: string): Promise<string>;
  undefine(name: string): Promise<void>;
}

export type { KubevirtVersion } from "./habits.ts";

/** What a {@link VirtLauncher} is made of. */
export interface VirtLauncherOptions extends ConverterOptions {
  /** `/var/run/kubevirt-hooks` of the compute container. */
  readonly hooksDirectory: string;
  readonly kubevirtVersion: KubevirtVersion;
  readonly libvirt: Libvirt;
  readonly collectTimeoutMs?: number;
  readonly callbackDeadlineMs?: number;
  /** Structured plugins of the cluster, and where the machine has compute's `/var/run/kubevirt-plugin`. */
  readonly plugins?: { readonly active: readonly StructuredPlugin[]; readonly root: string };
  /** Changes KubeVirt's domain before any hook sees it: a kernel, a console, less memory. */
  readonly adapt?: (domain: XmlNode) => XmlNode;
  readonly logger?: Logger;
}

/** One OnDefineDomain. */
export interface HookCall {
  readonly input: string;
  readonly output: string;
}

/** A defined VM. */
export interface DefinedVm {
  /** libvirt's name of it. */
  readonly name: string;
  /** What the last call returned, which is what libvirt has. */
  readonly xml: string;
  readonly calls: readonly HookCall[];
}

/** KubeVirt keeps this many slots for NICs that are plugged later. */
const INTERFACE_SLOTS = 4;
const NO_PLACEHOLDERS = "kubevirt.io/placePCIDevicesOnRootComplex";
/** How many root ports KubeVirt adds for devices that are plugged later. */
const EXTRA_ROOT_PORTS = 6;

/** The compute container's part of a VM's life, as far as hook sidecars see it. */
export class VirtLauncher {
  readonly #options: VirtLauncherOptions;
  readonly #hooks: HookManager;
  readonly #logger: Logger;

  constructor(options: VirtLauncherOptions) {
    this.#options = options;
    this.#logger = options.logger ?? silentLogger;
    this.#hooks = new HookManager({
      hooksDirectory: options.hooksDirectory,
      layout: habitsOf(options.kubevirtVersion).hooksDirectory,
      ...(options.collectTimeoutMs === undefined ? {} : { collectTimeoutMs: options.collectTimeoutMs }),
      ...(options.callbackDeadlineMs === undefined ? {} : { callbackDeadlineMs: options.callbackDeadlineMs }),
    });
  }

  /** Waits for the sidecars of the pod. */
  collectHooks(count: number): Promise<readonly CollectedHook[]> {
    return this.#hooks.collect(count);
  }

  /** Defines the VM as often as this release does, and leaves libvirt with the last call's XML. */
  async defineVm(vmi: VirtualMachineInstance): Promise<DefinedVm> {
    const domain = this.#convert(vmi);
    const placeholders = placeholderCount(vmi);
    const calls: HookCall[] = [];
    const define = async (next: XmlNode) => {
      const input = printXml(next);
      const output = await this.#callHooks(input, vmi, "Boot");
      calls.push({ input, output });
      this.#logger.debug({ verb: "OnDefineDomain" }, "OnDefineDomain answered");
      await this.#options.libvirt.define(output);
      return output;
    };
    const name = domainName(vmi);
    const version = minor(this.#options.kubevirtVersion);
    const hotplugs = (vmi.spec.domain.machine?.type ?? "q35") === "q35" && vmi.spec.architecture !== "s390x";
    let xml: string;
    if (version >= 9 && !hotplugs) {
      xml = await define(domain);
    } else if (placeholders > 0) {
      await define(withPlaceholders(domain, vmi, placeholders));
      xml = await define(withReadDevices(domain, await this.#readBack(name), interfacesOf(domain)));
    } else {
      xml = await define(domain);
    }
    if (version >= 8 && hotplugs) {
      const readBack = version >= 10 && placeholders === 0;
      const base = readBack
        ? withReadDevices(domain, await this.#readBack(name))
        : lossyDomain(parseXml(xml));
      xml = await define(withRootPorts(base));
    }
    return { name, xml, calls };
  }

  /** On the target of a live migration: one call, whose answer is not used; only an error counts. */
  async prepareMigrationTarget(vmi: VirtualMachineInstance): Promise<void> {
    await this.#callHooks(printXml(this.#convert(vmi)), vmi, "MigrationTarget");
  }

  /** When QEMU has ended: makes the sidecars end. */
  shutdown(): Promise<void> {
    return this.#hooks.shutdown();
  }

  async #callHooks(
    xml: string,
    vmi: VirtualMachineInstance,
    context: "Boot" | "MigrationTarget",
  ): Promise<string> {
    const answer = await this.#hooks.onDefineDomain(xml, vmi);
    const { plugins, kubevirtVersion } = this.#options;
    if (plugins === undefined || plugins.active.length === 0) return answer;
    if (!habitsOf(kubevirtVersion).hasPlugins) {
      throw new Error(`KubeVirt ${kubevirtVersion} has no structured plugins`);
    }
    return applyPluginHooks(answer, vmi, context, plugins.active, plugins.root);
  }

  #convert(vmi: VirtualMachineInstance): XmlNode {
    const domain = convertVmi(vmi, this.#options);
    return this.#options.adapt?.(domain) ?? domain;
  }

  async #readBack(name: string): Promise<XmlNode> {
    return lossyDomain(parseXml(await this.#options.libvirt.dumpInactiveXml(name)));
  }
}

function placeholderCount(vmi: VirtualMachineInstance): number {
  const count = vmi.spec.domain.devices.interfaces?.length ?? 0;
  if (count === 0 || vmi.metadata.annotations?.[NO_PLACEHOLDERS] === "true") return 0;
  return Math.max(0, INTERFACE_SLOTS - count);
}

function withPlaceholders(domain: XmlNode, vmi: VirtualMachineInstance, count: number): XmlNode {
  const placeholders = [...Array(count).keys()].map((index) =>
    node("interface", { type: "ethernet" }, [
      node("source"),
      node("target", { dev: `placeholder-${index}`, managed: "no" }),
      node("model", { type: virtioModel(vmi) }),
      node("alias", { name: `placeholder-${index}` }),
    ]),
  );
  return withInterfaces(domain, [...interfacesOf(domain), ...placeholders]);
}

/** KubeVirt's domain with the devices that libvirt has; interfaces from there too unless they are given. */
function withReadDevices(domain: XmlNode, read: XmlNode, interfaces = interfacesOf(read)): XmlNode {
  const devices = child(read, "devices");
  if (devices === undefined) throw new Error("libvirt's domain has no devices");
  return withInterfaces(withChild(domain, devices), interfaces);
}

function withRootPorts(domain: XmlNode): XmlNode {
  const devices = child(domain, "devices");
  if (devices === undefined) throw new Error("the domain has no devices");
  const ports = [...Array(EXTRA_ROOT_PORTS).keys()].map(() =>
    node("controller", { type: "pci", model: "pcie-root-port" }),
  );
  const pci = devices.children.filter(
    ({ name, attributes }) => name === "controller" && attributes["type"] === "pci",
  );
  // Where nothing was read back from libvirt there is no bus yet, and libvirt takes the first controller for it.
  const bus = pci.length > 0 ? [] : [node("controller", { type: "pci", index: 0, model: "pcie-root" })];
  return withChild(domain, { ...devices, children: [...devices.children, ...bus, ...ports] });
}

function interfacesOf(domain: XmlNode): readonly XmlNode[] {
  return child(domain, "devices")?.children.filter((one) => one.name === "interface") ?? [];
}

function withInterfaces(domain: XmlNode, interfaces: readonly XmlNode[]): XmlNode {
  const devices = child(domain, "devices") ?? node("devices");
  const others = devices.children.filter((one) => one.name !== "interface");
  return withChild(domain, { ...devices, children: [...interfaces, ...others] });
}
