import { forgetAddresses } from "../../attachment/remove-attachment.ts";
import { Failure, toFailure } from "../../failure/failure.ts";
import {
  type Addressing,
  type HeldAddresses,
  type PortRecord,
  portRecordName,
} from "../../records/port-record.ts";
import type { CniContext } from "../cni-context.ts";
import { ipamType } from "../network-config.ts";
import { withAddresses } from "../port-settings-of.ts";
import type { AttachmentRequest } from "../request.ts";
import { parseIpamResult } from "./ipam-result.ts";
import { releaseAddresses } from "./release-addresses.ts";
import { didNothing, runIpam } from "./run-ipam.ts";

/**
 * The note of what an ADD is about to take from an IPAM plugin; undefined where the network names none. It is on disk
 * before the plugin runs, so that whatever happens to the ADD its addresses are given back.
 */
export function addressesToHold(request: AttachmentRequest): HeldAddresses | undefined {
  const type = ipamType(request.config);
  const { env, stdin } = request.raw;
  return type === undefined ? undefined : { type, stdin: stdin.toString("utf8"), env: { ...env } };
}

/**
 * The record with what the IPAM plugin gave, which a repeated ADD has already. Its port security then knows them.
 * @throws Failure of runIpam, or `ipam-failed` for a result that CNI does not allow
 */
export async function withAddressesHeld(
  planned: PortRecord,
  request: AttachmentRequest,
  context: CniContext,
): Promise<PortRecord> {
  const { ipam } = planned;
  if (ipam === undefined) return planned;
  const given = ipam.given ?? (await acquire(planned, ipam.type, request, context));
  return { ...planned, settings: withAddresses(planned.settings, given.ips), ipam: { ...ipam, given } };
}

async function acquire(
  planned: PortRecord,
  type: string,
  request: AttachmentRequest,
  { node }: CniContext,
): Promise<Addressing> {
  const { env, stdin, delegate } = request.raw;
  try {
    const output = await runIpam({ type, verb: "ADD", env, stdin }, delegate);
    return parseIpamResult(output, type, request.config.cniVersion);
  } catch (error) {
    if (didNothing(error)) {
      await forgetAddresses(node, portRecordName(planned.containerId, planned.interfaceName));
    }
    throw error;
  }
}

/**
 * Gives the addresses of an earlier attachment of the same interface back, before another asks for some: an IPAM plugin
 * gives one interface addresses once.
 * @throws Failure when they are still held
 */
export async function releaseForAnother(
  earlier: PortRecord,
  request: AttachmentRequest,
  context: CniContext,
): Promise<void> {
  try {
    await releaseAddresses(earlier, context, request.raw.delegate);
  } catch (error) {
    const failure = toFailure(error);
    throw new Failure({
      code: failure.code === "cni-outdated" ? failure.code : "called-off",
      what: `addresses of an earlier attachment cannot be given back: ${failure.what}`,
      where: `container ${earlier.containerId}, interface ${earlier.interfaceName}`,
      fix: failure.fix ?? "it is tried again with the next request",
      cause: error,
    });
  }
}
