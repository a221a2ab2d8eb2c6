// The files by which containers get a claim's interfaces: a CDI file for each claim, and for each interface one that says
// that it is there. The CDI devices mount the latter, so a container cannot start in a sandbox whose ADD was left out.
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { replaceMemoryFile } from "../files/replace-file.ts";
import { type InterfaceRecord, interfaceKey } from "./interface-record.ts";
import { CNI_DRIVER } from "./plan-interfaces.ts";
import type { CniResult } from "./run-network.ts";

const CDI_KIND = `${CNI_DRIVER}/interface`;
const CDI_VERSION = "0.5.0";
/** Where containers find the CNI result of each interface. */
const IN_CONTAINER = "/var/run/cni-dra";

/** Where files go; both directories are memory, which a reboot empties. */
export interface FilePlaces {
  readonly cdiDirectory: string;
  readonly readyDirectory: string;
}

/** The id by which kubelet asks the runtime for an interface. */
export function cdiDeviceId(record: Pick<InterfaceRecord, "claim" | "request">): string {
  return `${CDI_KIND}=${interfaceKey(record)}`;
}

/** Writes the CDI file of a claim. */
export function writeCdiFile(
  records: readonly InterfaceRecord[],
  { cdiDirectory, readyDirectory }: FilePlaces,
): void {
  const [first] = records;
  if (first === undefined) return;
  const devices = records.map((record) => ({
    name: interfaceKey(record),
    containerEdits: {
      mounts: [
        {
          hostPath: join(readyDirectory, interfaceKey(record)),
          containerPath: join(IN_CONTAINER, `${record.ifName}.json`),
          options: ["ro", "bind"],
        },
      ],
    },
  }));
  mkdirSync(cdiDirectory, { recursive: true, mode: 0o755 });
  const text = `${JSON.stringify({ cdiVersion: CDI_VERSION, kind: CDI_KIND, devices })}\n`;
  replaceMemoryFile(cdiPath(first.claim.uid, cdiDirectory), text, 0o644);
}

/** Already gone is fine. */
export function removeCdiFile(claimUid: string, { cdiDirectory }: FilePlaces): void {
  rmSync(cdiPath(claimUid, cdiDirectory), { force: true });
}

/** Lets containers start that use the interface. */
export function markReady(record: InterfaceRecord, result: CniResult, { readyDirectory }: FilePlaces): void {
  mkdirSync(readyDirectory, { recursive: true, mode: 0o755 });
  replaceMemoryFile(join(readyDirectory, interfaceKey(record)), `${JSON.stringify(result)}\n`, 0o644);
}

/** Already gone is fine. */
export function markNotReady(record: InterfaceRecord, { readyDirectory }: FilePlaces): void {
  rmSync(join(readyDirectory, interfaceKey(record)), { force: true });
}

function cdiPath(claimUid: string, cdiDirectory: string): string {
  return join(cdiDirectory, `${CDI_KIND.replace("/", "-")}_${claimUid}.json`);
}
