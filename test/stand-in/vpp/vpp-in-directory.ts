import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VppStandIn, type VppStandInOptions } from "./vpp.ts";

/** A running stand-in of VPP with a directory of its own, which its socket is in. */
export interface VppInDirectory {
  readonly vpp: VppStandIn;
  readonly directory: string;
  readonly apiSocket: string;
  /** Ends it and removes the directory. */
  close(): Promise<void>;
}

export async function startVppInDirectory(
  options: Omit<VppStandInOptions, "path"> = {},
): Promise<VppInDirectory> {
  const directory = await mkdtemp(join(tmpdir(), "vpp-"));
  const apiSocket = join(directory, "api.sock");
  const vpp = new VppStandIn({ ...options, path: apiSocket });
  await vpp.start();
  const close = async () => {
    await vpp.kill();
    await rm(directory, { recursive: true, force: true });
  };
  return { vpp, directory, apiSocket, close };
}
