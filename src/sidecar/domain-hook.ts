import { isUtf8 } from "node:buffer";
import { Failure } from "../failure/failure.ts";
import { defineDomain } from "./define-domain.ts";
import { type FindSocketsOptions, findSockets } from "./find-sockets.ts";
import type { DomainCall, DomainRequest } from "./hook-services.ts";
import { parseVmi, type Vmi } from "./vmi.ts";

/** The binding's name where KubeVirt does not pass it (before 1.9). */
const DEFAULT_BINDING = "vhostuser";

/** What the hook works with. */
export interface DomainHookOptions extends FindSocketsOptions {
  /** Name in the KubeVirt CR; undefined where KubeVirt does not pass it. */
  readonly binding: string | undefined;
}

/**
 * What every version of OnDefineDomain does: VMI, network-info and domain in, domain out. No state is kept between
 * calls, so any number of them, also concurrent ones, ends in the same state.
 * @throws Failure
 */
export async function answerDomain(
  request: DomainRequest,
  options: DomainHookOptions,
  call: DomainCall,
): Promise<Uint8Array> {
  const { logger } = options;
  const vmi = parseVmi(decode(request.vmi, "invalid-vmi"), options.binding ?? DEFAULT_BINDING);
  if (vmi.interfaces.length === 0) return answerWithoutInterface(request, vmi, options);
  const isMigrationTarget = request.isMigrationTarget === true || vmi.migrating;
  const sockets = await findSockets(vmi, options, { ...call, isMigrationTarget });
  if (sockets === undefined) return request.domainXML;
  let xml: string;
  let answer: string;
  try {
    xml = decode(request.domainXML, "invalid-domain");
    answer = defineDomain(xml, vmi, sockets);
  } catch (error) {
    // libvirt starts the source's domain here and discards this answer, but an error would stop the migration.
    if (!isMigrationTarget) throw error;
    logger.warn(
      { vmi: vmi.name, err: error },
      "the domain could not be changed on the migration's target; it keeps the source's domain",
    );
    return request.domainXML;
  }
  const interfaces = vmi.interfaces.map(({ name }) => name);
  logger.info({ vmi: vmi.name, interfaces, changed: answer !== xml }, "defined the domain");
  return Buffer.from(answer, "utf8");
}

function answerWithoutInterface(request: DomainRequest, vmi: Vmi, options: DomainHookOptions): Uint8Array {
  if (vmi.unplugging || options.binding !== undefined) {
    options.logger.warn({ vmi: vmi.name }, "no interface of this binding; the domain is not changed");
    return request.domainXML;
  }
  throw new Failure({
    code: "invalid-vmi",
    what: `no interface has binding ${JSON.stringify(DEFAULT_BINDING)}`,
    where: `VMI ${vmi.name}`,
    fix: `register the plugin as ${JSON.stringify(DEFAULT_BINDING)}: KubeVirt before 1.9 passes a sidecar no other name`,
  });
}

function decode(bytes: Uint8Array, code: "invalid-vmi" | "invalid-domain"): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!isUtf8(buffer)) {
    throw new Failure({
      code,
      what: "it is not UTF-8",
      where: `OnDefineDomain, ${code.slice("invalid-".length)}`,
      fix: "check what KubeVirt or a hook sidecar before this one wrote",
    });
  }
  return buffer.toString("utf8");
}
