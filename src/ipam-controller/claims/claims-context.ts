import type { AddressPool } from "../../address-objects/address-pool.ts";
import type { AddressSpace } from "../../address-objects/address-space.ts";
import type { ClaimCondition } from "../../claims/ipam-claim.ts";
import type { ControllerContext } from "../controller-context.ts";
import type { ClaimsView } from "./claims-view.ts";

/** What the parts for claims share. */
export interface ClaimsContext extends ControllerContext {
  readonly claims: ClaimsView;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/** A pool of a claim's network that can be used. */
export interface UsablePool {
  readonly pool: AddressPool;
  readonly space: AddressSpace;
}

/** Why a claim has no addresses now, in a word for machines and a sentence for people. */
export class ClaimRefused extends Error {
  readonly reason: ClaimCondition["reason"];

  constructor(reason: ClaimCondition["reason"], message: string) {
    super(message);
    this.reason = reason;
  }
}
