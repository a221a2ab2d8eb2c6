import { isUtf8 } from "node:buffer";
import { Failure } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import { socketPath as interfaceSocketPath } from "../socket-directory/layout.ts";
import { defineDomain, type NicSocket } from "./define-domain.ts";
import { type SharedDirectory, stableSocketPath } from "./stable-link.ts";
import { parseVmi, type Vmi, type VmiInterface } from "./vmi.ts";
import { type WaitOptions, waitForNetworks } from "./wait-for-networks.ts";

/** The name that a plugin has where KubeVirt doesn't tell it (before 1.9). */
export const DEFAULT_BINDING = "vhostuser";

/** Where every pod sees our pool `sockets`. */
const CONSTANT_MOUNT = "/var/run/vhostuser/sockets";

/** What the hook works with. */
export interface DomainHookOptions {
  /** Name in the KubeVirt CR; undefined where KubeVirt doesn't tell it. */
  readonly binding: string | undefined;
  /** Directory for stable links. */
  readonly links: SharedDirectory;
  readonly networkInfo: Omit<WaitOptions, "signal"> & {
    /** Milliseconds to wait on a migration's target; default 15 000. */
    readonly targetBudgetMs?: number;
  };
  readonly logger: Logger;
}

/** Bytes as virt-launcher sends them. */
export interface DomainRequest {
  readonly domainXML: Uint8Array;
  readonly vmi: Uint8Array;
}

/**
 * What every version of OnDefineDomain does: VMI, network-info and domain in, domain out. Nothing is kept between
 * two calls, so any number of them, also at the same time, ends in the same state.
 * @throws Failure
 */
export async function answerDomain(
  request: DomainRequest,
  options: DomainHookOptions,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const binding = options.binding ?? DEFAULT_BINDING;
  const vmi = parseVmi(decode(request.vmi, "invalid-vmi"), binding);
  if (vmi.interfaces.length === 0) return answerWithoutInterface(request, vmi, options);
  const xml = decode(request.domainXML, "invalid-domain");
  const names = vmi.interfaces.map((one) => one.name);
  const entries = await readEntries(vmi, names, options, signal);
  // Whatever is answered here is thrown away; an error would stop the migration.
  if (entries === undefined) return request.domainXML;
  const found = new Map(
    vmi.interfaces.map((one) => [one, entries.get(one.name)?.socketPath ?? constantPath(one, options)]),
  );
  refuseSharedSockets(found, vmi);
  const sockets = new Map<string, NicSocket>();
  for (const [{ name, podInterfaceName }, socketPath] of found) {
    const path = await stableSocketPath({ network: name, podInterfaceName, socketPath }, options.links);
    sockets.set(name, { path, mac: entries.get(name)?.mac, mtu: entries.get(name)?.mtu });
  }
  const answer = defineDomain(xml, vmi, sockets);
  options.logger.info({ vmi: vmi.name, interfaces: names, changed: answer !== xml }, "defined the domain");
  return Buffer.from(answer, "utf8");
}

/** On a migration's target KubeVirt before 1.6.3 never writes the file, so waiting for it is not worth much. */
const TARGET_BUDGET_MS = 15_000;

/** Network-info, or undefined where a migration's target has none: a socket in the constant mount needs none. */
async function readEntries(
  vmi: Vmi,
  names: readonly string[],
  { networkInfo, logger }: DomainHookOptions,
  signal: AbortSignal,
): Promise<Awaited<ReturnType<typeof waitForNetworks>> | undefined> {
  const budget = vmi.migrating ? { budgetMs: networkInfo.targetBudgetMs ?? TARGET_BUDGET_MS } : {};
  try {
    return await waitForNetworks(names, { ...networkInfo, ...budget, signal });
  } catch (error) {
    if (!vmi.migrating || !(error instanceof Failure) || error.code !== "network-info-timeout") throw error;
    logger.warn(
      { vmi: vmi.name, err: error },
      "no network-info on a migration's target (KubeVirt before 1.6.3 writes none): the socket must be in the constant mount",
    );
    return undefined;
  }
}

function answerWithoutInterface(request: DomainRequest, vmi: Vmi, options: DomainHookOptions): Uint8Array {
  if (vmi.unplugging || options.binding !== undefined) {
    options.logger.warn({ vmi: vmi.name }, "no interface of this binding; the domain stays as it is");
    return request.domainXML;
  }
  throw new Failure({
    code: "invalid-vmi",
    what: `no interface has binding ${JSON.stringify(DEFAULT_BINDING)}`,
    where: `VMI ${vmi.name}`,
    fix: `register the plugin as ${JSON.stringify(DEFAULT_BINDING)}: KubeVirt before 1.9 doesn't tell a sidecar any other name`,
  });
}

function constantPath(one: VmiInterface, options: DomainHookOptions): string {
  const path = interfaceSocketPath(CONSTANT_MOUNT, one.podInterfaceName, `interface ${one.name}`);
  options.logger.warn(
    { interface: one.name, socket: path },
    "the network has no device-info, its socket is taken to be in the constant mount; does its " +
      "NetworkAttachmentDefinition have the annotation k8s.v1.cni.cncf.io/resourceName?",
  );
  return path;
}

function refuseSharedSockets(found: ReadonlyMap<VmiInterface, string>, vmi: Vmi): void {
  const owners = new Map<string, string>();
  for (const [{ name }, path] of found) {
    const other = owners.get(path);
    if (other !== undefined) {
      throw new Failure({
        code: "invalid-network-info",
        what: `interfaces ${other} and ${name} have the same socket ${path}`,
        where: `VMI ${vmi.name}`,
        fix: "correct the CNI or device plugin that wrote the device-info: a socket serves one NIC",
      });
    }
    owners.set(path, name);
  }
}

function decode(bytes: Uint8Array, code: "invalid-vmi" | "invalid-domain"): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!isUtf8(buffer)) {
    throw new Failure({
      code,
      what: "it is not UTF-8",
      where: `OnDefineDomain, ${code.slice("invalid-".length)}`,
    });
  }
  return buffer.toString("utf8");
}
