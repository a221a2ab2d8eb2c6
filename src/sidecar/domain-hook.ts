import { isUtf8 } from "node:buffer";
import { Failure } from "../failure/failure.ts";
import { defineDomain } from "./define-domain.ts";
import type { DomainCall } from "./domain-call.ts";
import { type FindSocketsOptions, findSockets } from "./find-sockets.ts";
import { parseVmi, type Vmi } from "./vmi.ts";

/** The name that a plugin has where KubeVirt doesn't tell it (before 1.9). */
const DEFAULT_BINDING = "vhostuser";

/** What the hook works with. */
export interface DomainHookOptions extends FindSocketsOptions {
  /** Name in the KubeVirt CR; undefined where KubeVirt doesn't tell it. */
  readonly binding: string | undefined;
}

/** Bytes as virt-launcher sends them. */
export interface DomainRequest {
  readonly domainXML: Uint8Array;
  readonly vmi: Uint8Array;
  /** Where the caller says so; else the VMI's status tells. */
  readonly isMigrationTarget?: boolean;
}

/**
 * What every version of OnDefineDomain does: VMI, network-info and domain in, domain out. Nothing is kept between
 * two calls, so any number of them, also at the same time, ends in the same state.
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
    // The VM keeps the source's domain: whatever is answered here is thrown away, but an error stops the migration.
    if (!isMigrationTarget) throw error;
    logger.warn(
      { vmi: vmi.name, err: error },
      "this domain could not be defined anew; the migration goes on",
    );
    return request.domainXML;
  }
  const interfaces = vmi.interfaces.map(({ name }) => name);
  logger.info({ vmi: vmi.name, interfaces, changed: answer !== xml }, "defined the domain");
  return Buffer.from(answer, "utf8");
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

function decode(bytes: Uint8Array, code: "invalid-vmi" | "invalid-domain"): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!isUtf8(buffer)) {
    throw new Failure({
      code,
      what: "it is not UTF-8",
      where: `OnDefineDomain, ${code.slice("invalid-".length)}`,
      fix: "look at what KubeVirt or a hook sidecar before this one wrote",
    });
  }
  return buffer.toString("utf8");
}
