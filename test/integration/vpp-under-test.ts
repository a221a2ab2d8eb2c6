import { startRealVpp, startVppStandIn } from "./vpp-process.ts";
import { startVppRig, type VppRig } from "./vpp-rig.ts";

const binary = process.env.VPP_BIN;

/** What the VPP tests run on: VPP is not in Debian, so where `VPP_BIN` names none the stand-in speaks for it. */
export const vppName = binary === undefined ? "VPP's stand-in" : "VPP";

/** Starts it, with two bridge domains. */
export function startVpp(): Promise<VppRig> {
  return startVppRig((run, directory) =>
    binary === undefined ? startVppStandIn(run, directory) : startRealVpp(run, binary, directory),
  );
}
