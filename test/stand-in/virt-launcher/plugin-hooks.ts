import { lstat } from "node:fs/promises";
import { join, normalize } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { loadService } from "../../../src/grpc/load-service.ts";
import { dialUnix } from "../../../src/grpc/unix-client.ts";
import { lossyDomain } from "./lossy-domain.ts";
import type { VirtualMachineInstance } from "./vmi.ts";
import { child, parseXml, printXml, withChild, type XmlNode } from "./xml-tree.ts";

/** A Plugin object with one domain hook that is a sidecar. */
export interface StructuredPlugin {
  readonly name: string;
  /** As in the object, below `/var/run/kubevirt-plugin/<name>/`. */
  readonly socketPath: string;
  readonly failureStrategy?: "Fail" | "Ignore";
  /** What its condition says of the VM; true where it has none. */
  readonly matches?: boolean;
  /** Default 30 s, as KubeVirt's. */
  readonly timeoutMs?: number;
}

/** Where the compute container has all plugins' sockets. */
const PLUGIN_ROOT = "/var/run/kubevirt-plugin";
const POLL_MS = 500;
const READY_MS = 30_000;
const CALL_MS = 30_000;

const service = loadService(
  "kubevirt/domain-hook-v1alpha1.proto",
  "kubevirt.hooks.plugins.v1alpha1.DomainHookService",
);

/**
 * virt-launcher's pipeline of structured plugins (KubeVirt 1.9), which runs wherever the cluster has a Plugin: what the
 * legacy sidecars answered goes through KubeVirt's structs, and from there through each plugin by name whose condition
 * matches; before and between plugins it goes through libvirtxml, which knows all of libvirt's elements, keeps no
 * comments, reprints, and writes `type` for every source of a vhostuser interface.
 * @param root where the machine has compute's {@link PLUGIN_ROOT}
 */
export async function applyPluginHooks(
  xml: string,
  vmi: VirtualMachineInstance,
  context: "Boot" | "MigrationTarget",
  plugins: readonly StructuredPlugin[],
  root: string,
  keepsCommandline: boolean,
): Promise<string> {
  let domain = withSourceTypes(lossyDomain(parseXml(xml), keepsCommandline));
  const byName = plugins.toSorted((left, right) => (left.name < right.name ? -1 : 1));
  for (const plugin of byName) {
    if (plugin.matches === false) continue;
    try {
      domain = parseXml(await mutate(printXml(domain), vmi, context, plugin, root));
    } catch (cause) {
      if (plugin.failureStrategy === "Ignore") continue;
      throw new Error(`plugin ${plugin.name} hook 0 failed: ${String(cause)}`, { cause });
    }
  }
  return printXml(domain);
}

function withSourceTypes(domain: XmlNode): XmlNode {
  const devices = child(domain, "devices");
  if (devices === undefined) return domain;
  const children = devices.children.map((one) => {
    const source = child(one, "source");
    if (one.attributes["type"] !== "vhostuser" || source === undefined) return one;
    return withChild(one, { ...source, attributes: { type: "unix", ...source.attributes } });
  });
  return withChild(domain, { ...devices, children });
}

async function mutate(
  xml: string,
  vmi: VirtualMachineInstance,
  context: string,
  { name, socketPath, timeoutMs = CALL_MS }: StructuredPlugin,
  root: string,
): Promise<string> {
  if (normalize(socketPath) !== socketPath || !socketPath.startsWith(`${PLUGIN_ROOT}/${name}/`)) {
    throw new Error(`socket path ${socketPath} is outside ${PLUGIN_ROOT}/${name}/`);
  }
  const path = join(root, socketPath.slice(PLUGIN_ROOT.length));
  await waitForSocket(path);
  if ((await lstat(path)).isSymbolicLink()) throw new Error(`socket path ${socketPath} is a symlink`);
  const client = dialUnix(service, path);
  try {
    const request = {
      domain_type: "libvirt",
      domain: Buffer.from(xml),
      vmi: Buffer.from(JSON.stringify(vmi)),
      sidecar_context: { invocation_context: context },
    };
    const answer = await client.call<{ domain: Buffer }>("MutateDomain", request, timeoutMs);
    return answer.domain.toString("utf8");
  } finally {
    client.close();
  }
}

async function waitForSocket(path: string): Promise<void> {
  const end = Date.now() + READY_MS;
  while (!(await lstat(path).catch(() => false))) {
    if (Date.now() > end) throw new Error(`sidecar socket ${path} not ready after ${READY_MS} ms`);
    await delay(POLL_MS);
  }
}
