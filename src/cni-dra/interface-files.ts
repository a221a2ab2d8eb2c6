// The files by which containers get a claim's interfaces: a CDI file for each claim, and for each interface two that are
// there while it is. The CDI devices mount them, so a container cannot start in a sandbox whose ADD was left out: one has
// the CNI result, and the other is a link to the network namespace, which leads nowhere once its sandbox has ended, also
// while this driver is away.
import { mkdirSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { replaceMemoryFile } from "../files/replace-file.ts";
import { type InterfaceRecord, interfaceKey } from "./interface-record.ts";
import { CNI_DRIVER } from "./plan-interfaces.ts";

const CDI_KIND = `${CNI_DRIVER}/interface`;
const CDI_VERSION = "0.5.0";
/** Where containers find the files of each interface. */
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
      mounts: ["json", "netns"].map((suffix) => ({
        hostPath: join(readyDirectory, `${interfaceKey(record)}.${suffix}`),
        containerPath: join(IN_CONTAINER, `${record.ifName}.${suffix}`),
        options: ["ro", "bind"],
      })),
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

/** Lets containers start that use the interface, or keeps them from it where it is not there. May be repeated. */
export function showReadiness(record: InterfaceRecord, { readyDirectory }: FilePlaces): void {
  const path = join(readyDirectory, interfaceKey(record));
  const added = record.attachments.find(({ state }) => state === "added");
  if (added === undefined) {
    for (const suffix of ["netns", "json"]) rmSync(`${path}.${suffix}`, { force: true });
    return;
  }
  mkdirSync(readyDirectory, { recursive: true, mode: 0o755 });
  replaceMemoryFile(`${path}.json`, `${JSON.stringify(added.result)}\n`, 0o644);
  rmSync(`${path}.new`, { force: true });
  symlinkSync(added.netns, `${path}.new`);
  renameSync(`${path}.new`, `${path}.netns`);
}

function cdiPath(claimUid: string, cdiDirectory: string): string {
  return join(cdiDirectory, `${CDI_KIND.replace("/", "-")}_${claimUid}.json`);
}
