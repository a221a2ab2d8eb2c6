import { type Logger, silentLogger } from "../../../src/logging/logger.ts";
import { type ConverterOptions, convertVmi, domainName, virtioModel } from "./converter.ts";
import { type Habits, habitsOf, type KubevirtVersion } from "./habits.ts";
import { type CollectedHook, HookManager } from "./hook-manager.ts";
import { lossyDomain } from "./lossy-domain.ts";
import { hasPcieSlots, planFreeSlots, withRootPorts } from "./pci-slots.ts";
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

/** The compute container's part of a VM's life, as far as hook sidecars see it. */
export class VirtLauncher {
  readonly #options: VirtLauncherOptions;
  readonly #habits: Habits;
  readonly #hooks: HookManager;
  readonly #logger: Logger;

  constructor(options: VirtLauncherOptions) {
    this.#options = options;
    this.#habits = habitsOf(options.kubevirtVersion);
    this.#logger = options.logger ?? silentLogger;
    this.#hooks = new HookManager({
      hooksDirectory: options.hooksDirectory,
      layout: this.#habits.hooksDirectory,
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
    const { freeSlots, readsBackAlways } = this.#habits;
    const none = { placeholders: 0, rootPorts: 0 };
    const plan = hasPcieSlots(vmi) ? planFreeSlots(domain, vmi, freeSlots) : none;
    let next = domain;
    if (plan.placeholders > 0) {
      await define(withPlaceholders(domain, vmi, plan.placeholders));
      next = withReadDevices(domain, await this.#readBack(name), interfacesOf(domain));
    }
    let xml = await define(next);
    const readsBack = readsBackAlways && hasPcieSlots(vmi);
    if (plan.rootPorts > 0 || readsBack) {
      next = this.#lossy(xml);
      if (readsBack && plan.placeholders === 0) next = withReadDevices(next, await this.#readBack(name));
      xml = await define(withRootPorts(next, plan.rootPorts));
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
    const { hasPlugins, keepsCommandline } = this.#habits;
    if (!hasPlugins) throw new Error(`KubeVirt ${kubevirtVersion} has no structured plugins`);
    return applyPluginHooks(answer, vmi, context, plugins.active, plugins.root, keepsCommandline);
  }

  #convert(vmi: VirtualMachineInstance): XmlNode {
    const domain = convertVmi(vmi, this.#options);
    return this.#options.adapt?.(domain) ?? domain;
  }

  async #readBack(name: string): Promise<XmlNode> {
    return this.#lossy(await this.#options.libvirt.dumpInactiveXml(name));
  }

  #lossy(xml: string): XmlNode {
    return lossyDomain(parseXml(xml), this.#habits.keepsCommandline);
  }
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

function interfacesOf(domain: XmlNode): readonly XmlNode[] {
  return child(domain, "devices")?.children.filter((one) => one.name === "interface") ?? [];
}

function withInterfaces(domain: XmlNode, interfaces: readonly XmlNode[]): XmlNode {
  const devices = child(domain, "devices") ?? node("devices");
  const others = devices.children.filter((one) => one.name !== "interface");
  return withChild(domain, { ...devices, children: [...interfaces, ...others] });
}
