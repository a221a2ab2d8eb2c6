import { parseAllDocuments, stringify } from "yaml";
import * as z from "zod";
import { parseAddressPool } from "../../src/address-objects/address-pool.ts";
import { parseNetworkConfig } from "../../src/cni/network-config.ts";
import { portSettingsOf } from "../../src/cni/port-settings-of.ts";
import { parseConfig } from "../../src/config/load.ts";
import { describeThrown } from "../../src/failure/failure.ts";
import { parseNetworkConfig as parseIpamConfig } from "../../src/ipam-agent/network-config.ts";
import { SETTINGS_ANNOTATION } from "../../src/sidecar/interface-settings.ts";
import { parseVmi } from "../../src/sidecar/vmi.ts";
import { openManifestCheck } from "../manifests/check-manifest.ts";
import type { Manifest } from "../manifests/manifest.ts";

/** A fenced block of a document. */
export interface Example {
  readonly language: string;
  readonly text: string;
}

const PLUGIN = "kube-vhostuser";
const IPAM_PLUGIN = "kube-vhostuser-ipam";
const checkManifest = openManifestCheck();
const RESOURCE_ANNOTATION = "k8s.v1.cni.cncf.io/resourceName";
const annotated = z.looseObject({ annotations: z.record(z.string(), z.string()).optional() });
const networkSchema = z.object({ metadata: annotated, spec: z.object({ config: z.string() }) });
const templateSchema = z.object({ metadata: annotated.optional(), spec: z.looseObject({}) });
const virtualMachineSchema = z.object({ spec: z.object({ template: templateSchema }) });

/** What is wrong with an example in a document: with its syntax, or to the program that will read it. */
export function exampleFault({ language, text }: Example): string | undefined {
  try {
    if (language === "json") checkNetwork(text);
    if (language === "yaml") checkYaml(text);
    return undefined;
  } catch (error) {
    return `${describeThrown(error)}, in ${JSON.stringify(text)}`;
  }
}

function checkYaml(text: string): void {
  for (const one of parseAllDocuments(text)) {
    const [fault] = one.errors;
    if (fault !== undefined) throw fault;
    const value: unknown = one.toJS();
    if (typeof value !== "object" || value === null) throw new Error("it is no object");
    // On its own, or in the values of the chart.
    const config = "config" in value ? value.config : value;
    // The chart puts its value there.
    const dra = "config" in value && "dra" in value ? { dra: value.dra } : {};
    if (typeof config === "object" && config !== null && "pools" in config)
      checkConfig({ ...dra, ...config });
    if ("kind" in value) checkObject(value.kind, value);
    else if ("metadata" in value && !("spec" in value)) checkVm({ ...value, spec: specFor(value) });
  }
}

function checkConfig(config: object): void {
  parseConfig(stringify(config), "the configuration", "node-1");
}

/** Objects that we read ourselves, by who reads them. */
function checkObject(kind: unknown, value: object): void {
  switch (kind) {
    case "NetworkAttachmentDefinition": {
      const { metadata, spec } = networkSchema.parse(value);
      if (metadata.annotations?.[RESOURCE_ANNOTATION] === undefined) throw new Error("it names no resource");
      checkNetwork(spec.config);
      break;
    }
    case "AddressSpace":
    case "AddressPool": {
      const [fault] = checkManifest(value as Manifest);
      if (fault !== undefined) throw new Error(fault);
      const metadata = { name: "example", uid: "u", resourceVersion: "1" };
      if (kind === "AddressPool") parseAddressPool({ ...value, metadata });
      break;
    }
    case "VirtualMachine":
      checkVm(virtualMachineSchema.parse(value).spec.template);
      break;
    case "VirtualMachineInstance":
      checkVm(value);
      break;
  }
}

function checkNetwork(text: string): void {
  const value = JSON.parse(text) as { readonly type?: unknown };
  if (value.type !== PLUGIN) return;
  const config = parseNetworkConfig(Buffer.from(text));
  portSettingsOf(config);
  if (config.ipam?.type === IPAM_PLUGIN) parseIpamConfig(Buffer.from(text));
}

function checkVm(value: unknown): void {
  const { metadata, spec } = templateSchema.parse(value);
  const vmi = { metadata: { name: "example", namespace: "default", ...metadata }, spec };
  parseVmi(JSON.stringify(vmi), "vhostuser");
}

/** A piece of a VM that has the annotation alone is one of a VM that has the interfaces which it names. */
function specFor(value: object): object {
  const { metadata } = z.object({ metadata: annotated }).parse(value);
  const names = Object.keys(JSON.parse(metadata.annotations?.[SETTINGS_ANNOTATION] ?? "{}") as object);
  return {
    architecture: "amd64",
    domain: {
      cpu: { cores: 8 },
      devices: {
        networkInterfaceMultiqueue: true,
        interfaces: names.map((name) => ({ name, binding: { name: "vhostuser" } })),
      },
    },
    networks: names.map((name) => ({ name, multus: { networkName: name } })),
  };
}
