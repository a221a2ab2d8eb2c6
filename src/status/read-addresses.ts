import { toFailure } from "../failure/failure.ts";
import { orAborted } from "../sync/deadlines.ts";
import type { AddressProblem } from "./address-words.ts";
import { type NodeAddresses, nodeAddressesShape } from "./addresses-shape.ts";
import { askAgent, isNotEnabled, type ProgramPlace } from "./status-client.ts";

/** What the node's IPAM agent says, or why it does not answer; undefined on a node without an agent. */
export type AddressesReading = NodeAddresses | AddressProblem | undefined;

/** Asks the IPAM agent, which may not be enabled. */
export async function readAddresses(place: ProgramPlace, signal: AbortSignal): Promise<AddressesReading> {
  try {
    return await orAborted(askAgent(place, "/v1/addresses", nodeAddressesShape), signal);
  } catch (error) {
    if (isNotEnabled(error, place)) return undefined;
    if (signal.aborted)
      return { verdict: "problem", what: "the IPAM agent did not answer in time", cure: "read its log" };
    const { what, fix: cure = "read its log" } = toFailure(error);
    return { verdict: "problem", what, cure };
  }
}
