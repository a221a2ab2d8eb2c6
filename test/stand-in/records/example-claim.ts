import type { ClaimHolder } from "../../../src/records/claim-holder.ts";

/** A result of a claim, for tests of records. */
export function exampleClaim(changes: Partial<ClaimHolder> = {}): ClaimHolder {
  return {
    ...{ kind: "claim", uid: "u", namespace: "ns", name: "c", request: "net", index: 0 },
    ...{ slicePool: "n1", device: "sockets", pod: { namespace: "ns", name: "p", uid: "pu" } },
    port: { bridge: "br0", mac: "02:00:00:00:00:01", settings: {}, isAddressed: false },
    ...changes,
  };
}
