import { isUtf8 } from "node:buffer";
import { Failure } from "../failure/failure.ts";
import { parseDomain } from "./domain-xml/document.ts";
import { applyEdits } from "./domain-xml/edits.ts";
import { editGuestMtu } from "./domain-xml/guest-mtu.ts";
import { editInterfaces, placeOnRootComplex } from "./domain-xml/interface.ts";
import { editIommu } from "./domain-xml/iommu.ts";
import { editMemory } from "./domain-xml/memory.ts";
import { type FindSocketsOptions, findSockets, type NicSocket } from "./find-sockets.ts";
import type { DomainCall, DomainRequest } from "./hook-services.ts";
import { parseVmi, type Vmi } from "./vmi.ts";

/** The binding's name where KubeVirt does not pass it (before 1.9). */
const DEFAULT_BINDING = "vhostuser";

/** What the hook works with. */
export interface DefineDomainOptions extends FindSocketsOptions {
  /** Name in the KubeVirt CR; undefined where KubeVirt does not pass it. */
  readonly binding: string | undefined;
}

/**
 * What every version of OnDefineDomain does. No state is kept between calls, so any number of them, also concurrent
 * ones, ends in the same state.
 * @throws Failure
 */
export async function answerDomain(
  request: DomainRequest,
  { binding, ...options }: DefineDomainOptions,
  call: DomainCall,
): Promise<Uint8Array> {
  const { logger } = options;
  // What the VM asks for.
  const vmi = parseVmi(decode(request.vmi, "invalid-vmi"), binding ?? DEFAULT_BINDING);
  if (vmi.interfaces.length === 0) {
    if (!vmi.unplugging && binding === undefined) throw otherBinding(vmi);
    logger.warn({ vmi: vmi.name }, "no interface of this binding; the domain is not changed");
    return request.domainXML;
  }
  // Where its sockets are. This makes the links, on a migration's target too.
  const isMigrationTarget = request.isMigrationTarget === true || vmi.migrating;
  const sockets = await findSockets(vmi, options, { ...call, isMigrationTarget });
  if (sockets === undefined) return request.domainXML;
  // The domain with them.
  try {
    const xml = decode(request.domainXML, "invalid-domain");
    const answer = defineDomain(xml, vmi, sockets);
    const interfaces = vmi.interfaces.map(({ name }) => name);
    logger.info({ vmi: vmi.name, interfaces, changed: answer !== xml }, "defined the domain");
    return Buffer.from(answer, "utf8");
  } catch (error) {
    // libvirt starts the source's domain here and discards this answer, but an error would stop the migration.
    if (!isMigrationTarget) throw error;
    logger.warn(
      { vmi: vmi.name, err: error },
      "the domain could not be changed on the migration's target; it keeps the source's domain",
    );
    return request.domainXML;
  }
}

/**
 * The domain with a vhost-user NIC for every interface of ours and memory that the switch can map. Everything
 * else comes back byte for byte, and a second pass changes nothing.
 * @param sockets by interface name
 * @throws Failure `invalid-domain`
 */
export function defineDomain(xml: string, vmi: Vmi, sockets: ReadonlyMap<string, NicSocket>): string {
  const document = parseDomain(xml);
  const nics = vmi.interfaces.map((one) => {
    const socket = sockets.get(one.name);
    if (socket === undefined) {
      throw new Failure({ code: "internal", what: `no socket was found for interface ${one.name}` });
    }
    return {
      ...one,
      socketPath: socket.path,
      mac: one.mac ?? socket.mac,
      mtu: socket.mtu,
      iommu: vmi.launchSecurity || one.settings.iommu === true,
      noRom: vmi.romTuning && one.bootOrder === undefined,
    };
  });
  const edited = applyEdits(xml, [
    ...editInterfaces(document, vmi.onRootComplex ? placeOnRootComplex(document, nics) : nics, vmi.order),
    ...editMemory(document),
    ...editGuestMtu(document, nics),
  ]);
  return vmi.iommu === undefined ? edited : applyEdits(edited, editIommu(parseDomain(edited), vmi.iommu));
}

function decode(bytes: Uint8Array, code: "invalid-vmi" | "invalid-domain"): string {
  if (isUtf8(bytes)) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
  throw new Failure({
    code,
    what: "it is not UTF-8",
    where: `OnDefineDomain, ${code.slice("invalid-".length)}`,
    fix: "check what KubeVirt or a hook sidecar before this one wrote",
  });
}

function otherBinding(vmi: Vmi): Failure {
  return new Failure({
    code: "invalid-vmi",
    what: `no interface has binding ${JSON.stringify(DEFAULT_BINDING)}`,
    where: `VMI ${vmi.name}`,
    fix: `register the plugin as ${JSON.stringify(DEFAULT_BINDING)}: KubeVirt before 1.9 passes a sidecar no other name`,
  });
}
