// `vhostuserctl claim-template`: a network of CNI as a ResourceClaimTemplate.
import { readFileSync } from "node:fs";
import { parse, stringify } from "yaml";
import * as z from "zod";
import { hostInterfaceOf, onHostInterface } from "../cni-dra/cni-network.ts";
import { CNI_DRIVER } from "../cni-dra/plan-interfaces.ts";
import { type CniNetwork, parseCniConfig, type Refuse } from "../dra/cni-config.ts";
import { DRA_DRIVER, PLUGIN_TYPE } from "../dra/dra-context.ts";
import { portOfCniConfig } from "../dra/port-config.ts";
import { describeThrown, Failure } from "../failure/failure.ts";
import { printableText } from "../names/printable.ts";
import { type CommandContext, EXIT, type ExitCode, print } from "./command-context.ts";

/** Device plugin resource of a NetworkAttachmentDefinition (multi-network spec 1.3). */
const RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName";
const OBJECT_NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;
/** Of the template, which a pod or VM names beside the claim. */
const REQUEST = "net";

const nadSchema = z.looseObject({
  metadata: z.looseObject({
    name: z.string(),
    namespace: z.string().optional(),
    annotations: z.record(z.string(), z.string()).nullish(),
  }),
  spec: z.looseObject({ config: z.string().optional() }).nullish(),
});

/** A network as it was written, with what a NetworkAttachmentDefinition says beside its configuration. */
interface Source {
  readonly config: Readonly<Record<string, unknown>>;
  readonly namespace?: string | undefined;
  readonly resource?: string | undefined;
}

/** `vhostuserctl claim-template`. @param file `-` for standard input */
export function runClaimTemplate(
  context: CommandContext,
  file: string,
  { ifName, complain }: { readonly ifName: string; readonly complain: (text: string) => void },
): ExitCode {
  const { template, leftOut } = claimTemplateOf(readFileSync(file === "-" ? 0 : file, "utf8"), file, ifName);
  print(context, template, () => stringify(template));
  for (const type of leftOut)
    complain(
      `vhostuserctl: capabilities of ${printableText(type)} are left out: a claim has no runtimeConfig\n`,
    );
  return EXIT.healthy;
}

/**
 * A ResourceClaimTemplate (resource.k8s.io/v1) for the driver that serves the network.
 * @param text a NetworkAttachmentDefinition or a CNI configuration, in YAML or JSON
 * @returns also the plugins that lose their `capabilities`
 * @throws Failure `invalid-network-config` for what no claim can have
 */
export function claimTemplateOf(
  text: string,
  file: string,
  ifName: string,
): { readonly template: object; readonly leftOut: readonly string[] } {
  const refuse: Refuse = (what, fix) =>
    new Failure({ code: "invalid-network-config", what, where: file, fix });
  const { config, namespace, resource } = sourceOf(text, refuse);
  const kind = { apiVersion: "cni.networking.x-k8s.io/v1alpha1", kind: "CNIConfig" };
  const { network } = parseCniConfig({ ...kind, ifName, config }, refuse);
  const parameters = { ...kind, ifName, config: withoutCapabilities(config) };
  const isOurs = network.plugins.some(({ type }) => type === PLUGIN_TYPE);
  const expression = isOurs ? ofResource(resource) : ofHostInterface(network, resource, refuse);
  if (isOurs) portOfCniConfig(parameters, refuse);
  const name = network.name.toLowerCase().replaceAll("_", "-");
  if (!OBJECT_NAME.test(name))
    throw refuse(`no object can have the network's name ${network.name}`, "rename the network");
  const exactly = {
    deviceClassName: isOurs ? "vhostuser" : "cni.networking.x-k8s.io",
    ...(expression === undefined ? {} : { selectors: [{ cel: { expression } }] }),
  };
  const driver = isOurs ? DRA_DRIVER : CNI_DRIVER;
  const devices = {
    requests: [{ name: REQUEST, exactly }],
    config: [{ requests: [REQUEST], opaque: { driver, parameters } }],
  };
  return {
    template: {
      ...{ apiVersion: "resource.k8s.io/v1", kind: "ResourceClaimTemplate" },
      metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
      spec: { spec: { devices } },
    },
    // In a network of ours they have an effect in no claim.
    leftOut: isOurs
      ? []
      : pluginsOf(config).flatMap((one) => ("capabilities" in one ? [String(one["type"])] : [])),
  };
}

function sourceOf(text: string, refuse: Refuse): Source {
  const object = parsed(text, refuse);
  if (object["kind"] === undefined && ("type" in object || "plugins" in object)) return { config: object };
  if (object["kind"] !== "NetworkAttachmentDefinition")
    throw refuse(
      "it is neither a NetworkAttachmentDefinition nor a CNI configuration",
      "pass one of them, as YAML or JSON",
    );
  const { data, error } = nadSchema.safeParse(object);
  if (data === undefined) throw refuse(z.prettifyError(error).replaceAll("\n", " "), "correct it");
  const { metadata, spec } = data;
  if (!spec?.config)
    throw refuse(
      "spec.config is empty: Multus takes this network from a file on each node",
      "pass that file",
    );
  // As Multus does, where the configuration has no name.
  const config = { name: metadata.name, ...parsed(spec.config, refuse) };
  return { config, namespace: metadata.namespace, resource: metadata.annotations?.[RESOURCE_NAME] };
}

function parsed(text: string, refuse: Refuse): Readonly<Record<string, unknown>> {
  let object: unknown;
  try {
    object = parse(text);
  } catch (error) {
    throw refuse(`it cannot be read: ${describeThrown(error)}`, "pass one object, as YAML or JSON");
  }
  if (typeof object === "object" && object !== null && !Array.isArray(object))
    return object as Readonly<Record<string, unknown>>;
  throw refuse("it is not an object", "pass a NetworkAttachmentDefinition or a CNI configuration");
}

/** Which values of `runtimeConfig` a runtime may pass: a claim has none. */
function withoutCapabilities(config: Readonly<Record<string, unknown>>): object {
  const without = ({ capabilities: _, ...rest }: Readonly<Record<string, unknown>>) => rest;
  return "plugins" in config ? { ...config, plugins: pluginsOf(config).map(without) } : without(config);
}

function pluginsOf(config: Readonly<Record<string, unknown>>): readonly Readonly<Record<string, unknown>>[] {
  const { plugins } = config;
  return Array.isArray(plugins) ? plugins : [config];
}

/** A device of the daemon's pool with this resource; any pool for none. */
function ofResource(resource: string | undefined): string | undefined {
  if (resource === undefined) return undefined;
  const attributes = 'device.attributes["k8s.cni.cncf.io"]';
  return `"resourceName" in ${attributes} && ${attributes}.resourceName == ${JSON.stringify(resource)}`;
}

/** The device of the host's interface that the plugins use, else the one without. */
function ofHostInterface(network: CniNetwork, resource: string | undefined, refuse: Refuse): string {
  if (resource !== undefined)
    throw refuse(
      `its plugin needs a device of the device plugin's resource ${resource}, which no claim of ${CNI_DRIVER} has`,
      "keep the network, or use a DRA driver for these devices",
    );
  const hostInterface = hostInterfaceOf(network);
  onHostInterface(network, hostInterface, refuse);
  const attributes = `device.attributes["${CNI_DRIVER}"]`;
  if (hostInterface === undefined) return `!("interfaceName" in ${attributes})`;
  return `"interfaceName" in ${attributes} && ${attributes}.interfaceName == ${JSON.stringify(hostInterface)}`;
}
