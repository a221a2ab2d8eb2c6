// The files by which containers of a claim get its sockets: one for the runtime (CDI), one for the guest's side for each
// request (device metadata). All follow from records, so that they can be written again at any time.
import { constants, existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as eventLoop } from "node:timers/promises";
import { type LabelOptions, setSelinuxLabel } from "../allocation/selinux-label.ts";
import type { DaemonConfig } from "../config/schema.ts";
import { describeThrown, systemCode } from "../failure/failure.ts";
import { removeTemporaries, replaceMemoryFile } from "../files/replace-file.ts";
import { type AllocationRecord, type ClaimAllocation, isOfClaim } from "../records/allocation-record.ts";
import { claimInterface } from "../records/claim-holder.ts";
import { portKey } from "../records/port-record.ts";
import type { Records } from "../records/records.ts";
import { cdiFile, cdiFileName, claimOfCdiFile, type MountedFile, type PreparedResult } from "./cdi.ts";
import { claimOfMetadata, ensureMetadata, metadataFile, readText } from "./device-metadata.ts";
import { DRA_DRIVER, type DraContext } from "./dra-context.ts";

/** What files are written with. */
export type FilesContext = Pick<
  DraContext,
  "node" | "places" | "cdiDirectory" | "pluginDirectory" | "logger"
>;

/** Claims whose files are checked before other requests are served; each takes some 50 µs. */
const CLAIMS_AT_ONCE = 20;

/** The allocations of each claim that kubelet has not released, by the claim's UID, each in the order of its results. */
export function liveClaims({
  allocations,
}: {
  readonly allocations: Pick<Records["allocations"], "list">;
}): ReadonlyMap<string, readonly ClaimAllocation[]> {
  return Map.groupBy(allocations.list().filter(isLive), ({ holder }) => holder.uid);
}

function isLive(record: AllocationRecord | undefined): record is ClaimAllocation {
  return record !== undefined && isOfClaim(record) && record.holder.released !== true;
}

/** Writes the files of a claim where they are missing or differ. */
export function writeClaimFiles(prepared: readonly PreparedResult[], context: FilesContext): void {
  const { cdiDirectory, places } = context;
  const directory = metadataDirectory(context);
  for (const path of [cdiDirectory, directory]) mkdirSync(path, { recursive: true, mode: 0o755 });
  const byRequest = Map.groupBy(prepared, ({ allocation }) => allocation.holder.request);
  const files = new Map<string, MountedFile>();
  for (const [request, results] of byRequest) {
    const [first] = results;
    if (first === undefined) continue;
    const file = metadataFile(directory, first);
    files.set(request, file);
    ensureMetadata(file.hostPath, results);
  }
  const [uid = ""] = prepared.map(({ allocation }) => allocation.holder.uid);
  const path = join(cdiDirectory, cdiFileName(uid));
  const metadataOf = (request: string): MountedFile => {
    const file = files.get(request);
    if (file === undefined) throw new RangeError(`no metadata of request ${request}`);
    return file;
  };
  const text = cdiFile(prepared, places, metadataOf);
  if (readText(path) !== text) replaceMemoryFile(path, text, 0o644);
}

/** Removes all files of a claim; already gone is fine. */
export function removeClaimFiles(uid: string, context: FilesContext): void {
  removeFilesOf((one) => one === uid, context);
}

/**
 * Writes again what is missing of the files of all prepared claims (a reboot empties the directory of CDI files) and
 * removes those of claims that are not recorded. One that fails is logged and does not keep the others.
 */
export async function restoreClaimFiles(context: FilesContext): Promise<void> {
  const { records } = context.node;
  // A damaged record may be of a claim whose pod lives, and of a device that no other record tells of.
  const isDamaged = records.allocations.unreadable.length > 0;
  for (const [index, [uid, allocations]] of [...liveClaims(records)].entries()) {
    if (index % CLAIMS_AT_ONCE === CLAIMS_AT_ONCE - 1) await eventLoop();
    try {
      const results = allocations.flatMap((allocation) => {
        const { id, holder } = allocation;
        const port = records.ports.get(portKey({ allocationId: id, interfaceName: claimInterface(holder) }));
        // It may have been released meanwhile.
        return isLive(records.allocations.get(id)) && port?.state === "attached"
          ? [{ allocation, port }]
          : [];
      });
      const isThere = existsSync(join(context.cdiDirectory, cdiFileName(uid)));
      // A port that is away for a moment, between two sandboxes, is in the files that there are.
      if (results.length === allocations.length && !(isDamaged && isThere)) writeClaimFiles(results, context);
    } catch (error) {
      context.logger.warn(
        { reason: describeThrown(error), entry: uid },
        "cannot restore the files of a claim",
      );
    }
  }
  if (isDamaged) return;
  for (const directory of [context.cdiDirectory, metadataDirectory(context)])
    await removeTemporaries(directory);
  const live = liveClaims(records);
  removeFilesOf((uid) => !live.has(uid), context);
}

function removeFilesOf(isGone: (uid: string) => boolean, context: FilesContext): void {
  for (const [directory, claimOf] of [
    [metadataDirectory(context), claimOfMetadata],
    [context.cdiDirectory, claimOfCdiFile],
  ] as const) {
    for (const name of namesIn(directory)) {
      const uid = claimOf(name);
      if (uid !== undefined && isGone(uid)) rmSync(join(directory, name), { force: true });
    }
  }
}

/**
 * Gives the directory of metadata the SELinux label of a pool, whose type the files in it inherit: containers may not read what
 * has the label of kubelet's directories.
 * @throws Failure `label-refused`, `part-missing`
 */
export async function labelMetadata(
  context: Pick<FilesContext, "pluginDirectory">,
  label: string,
  options?: LabelOptions,
): Promise<void> {
  const path = metadataDirectory(context);
  mkdirSync(path, { recursive: true, mode: 0o755 });
  const directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await setSelinuxLabel([directory.fd], label, options);
  } finally {
    await directory.close();
  }
}

/** Where files of claims go, by the configuration. */
export function claimDirectories({
  dra: { cdiDirectory },
  kubelet: { plugins },
}: Pick<DaemonConfig, "dra" | "kubelet">): Pick<FilesContext, "cdiDirectory" | "pluginDirectory"> {
  return { cdiDirectory, pluginDirectory: join(plugins, DRA_DRIVER) };
}

/** The files of a result on the host. */
export function filesOfResult(
  allocation: ClaimAllocation,
  directories: Pick<FilesContext, "cdiDirectory" | "pluginDirectory">,
): { readonly cdi: string; readonly metadata: string } {
  const cdi = join(directories.cdiDirectory, cdiFileName(allocation.holder.uid));
  return { cdi, metadata: metadataFile(metadataDirectory(directories), { allocation }).hostPath };
}

function metadataDirectory({ pluginDirectory }: Pick<FilesContext, "pluginDirectory">): string {
  return join(pluginDirectory, "dra-device-metadata");
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return [];
    throw error;
  }
}
