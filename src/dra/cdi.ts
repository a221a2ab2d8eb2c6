// How containers get what a claim has: CDI devices (Container Device Interface specification 0.5.0).

import { dirname } from "node:path";
import type { AllocationPlaces } from "../allocation/allocation.ts";
import { allocationDirectory } from "../allocation/layout.ts";
import type { ClaimAllocation } from "../records/allocation-record.ts";
import { type ClaimHolder, claimInterface, claimNameInPod } from "../records/claim-holder.ts";
import type { PortRecord } from "../records/port-record.ts";
import { DRA_DRIVER } from "./dra-context.ts";

/** A result of a claim with its port. */
export interface PreparedResult {
  readonly allocation: ClaimAllocation;
  readonly port: PortRecord;
}

const CDI_KIND = `${DRA_DRIVER}/socket`;
/** Known to every runtime that knows DRA; device names that begin with a digit need it. */
const CDI_VERSION = "0.5.0";
const FILE_PREFIX = `${CDI_KIND.replace("/", "-")}_`;

/** The id by which kubelet asks the runtime for a result's device; never used for anything else. */
export function cdiDeviceId(allocation: ClaimAllocation): string {
  return `${CDI_KIND}=${deviceName(allocation)}`;
}

/** Name of a claim's CDI file. */
export function cdiFileName(uid: string): string {
  return `${FILE_PREFIX}${uid}.json`;
}

/** The UID of the claim whose CDI file has this name; undefined for a file that is not ours. */
export function claimOfCdiFile(name: string): string | undefined {
  return name.startsWith(FILE_PREFIX) && name.endsWith(".json")
    ? name.slice(FILE_PREFIX.length, -".json".length)
    : undefined;
}

/** The variable with a socket's path, `VHOSTUSER_CLAIM_<CLAIM>__<INTERFACE>`. */
export function environmentName(holder: ClaimHolder): string {
  const text = `VHOSTUSER_CLAIM_${claimNameInPod(holder)}__${claimInterface(holder)}`;
  return text.toUpperCase().replaceAll(/[-.]/g, "_");
}

/** A file that a container sees. */
export interface MountedFile {
  readonly hostPath: string;
  readonly containerPath: string;
}

/**
 * A claim's CDI file: each result is a device, with its interface's directory and its variable. A container that uses one
 * request gets the devices of that request, and with the first of them its metadata.
 */
export function cdiFile(
  prepared: readonly PreparedResult[],
  places: AllocationPlaces,
  metadataOf: (request: string) => MountedFile,
): string {
  const devices = prepared.map(({ allocation, port }) => {
    const { holder, id } = allocation;
    const name = claimInterface(holder);
    const directory = `${allocationDirectory(places.root, id)}/${name}`;
    const mounts = [
      { hostPath: directory, containerPath: dirname(port.podSocketPath), options: ["rw", "bind"] },
    ];
    const metadata = holder.index === 0 ? [{ ...metadataOf(holder.request), options: ["ro", "bind"] }] : [];
    return {
      name: deviceName(allocation),
      containerEdits: {
        env: [`${environmentName(holder)}=${port.podSocketPath}`],
        mounts: [...mounts, ...metadata],
      },
    };
  });
  return `${JSON.stringify({ cdiVersion: CDI_VERSION, kind: CDI_KIND, devices })}\n`;
}

function deviceName({ id, holder }: ClaimAllocation): string {
  return `${holder.uid}_${id}`;
}
