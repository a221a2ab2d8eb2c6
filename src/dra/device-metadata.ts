// What a claim's containers can read about its devices (device metadata, KEP-5304).
import { closeSync, ftruncateSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { systemCode } from "../failure/failure.ts";
import { replaceMemoryFile } from "../files/replace-file.ts";
import { present } from "../names/present.ts";
import { shownInterface } from "../records/claim-holder.ts";
import type { MountedFile, PreparedResult } from "./cdi.ts";
import { DRA_DRIVER } from "./dra-context.ts";

/** Where containers find metadata, as KEP-5304 was implemented in Kubernetes 1.36. */
const IN_CONTAINER = "/var/run/kubernetes.io/dra-device-attributes";

/** The metadata of a request's devices, as its containers find it. */
export function metadataFile(
  directory: string,
  { allocation: { holder } }: Pick<PreparedResult, "allocation">,
): MountedFile {
  const { uid, name, podClaimName, request } = holder;
  const claim =
    podClaimName === undefined ? ["resourceclaims", name] : ["resourceclaimtemplates", podClaimName];
  return {
    hostPath: join(directory, `${uid}_${request}.json`),
    containerPath: join(IN_CONTAINER, ...claim, request, `${DRA_DRIVER}-metadata.json`),
  };
}

/** UID of the claim whose metadata a file in the directory is. */
export function claimOfMetadata(name: string): string | undefined {
  return /^([^_]+)_[^_]+\.json$/.exec(name)?.[1];
}

/**
 * Writes the metadata of a request where it differs. A file that is there is written in place: containers have that inode
 * mounted, and would never see another one.
 */
export function ensureMetadata(file: string, results: readonly PreparedResult[]): void {
  const found = readText(file);
  const generation = generationOf(found);
  const same = metadataText(results, Math.max(1, generation));
  if (found === same) return;
  if (found === undefined) {
    replaceMemoryFile(file, same, 0o644);
    return;
  }
  const text = Buffer.from(metadataText(results, generation + 1));
  const opened = openSync(file, "r+");
  try {
    writeSync(opened, text, 0, text.length, 0);
    ftruncateSync(opened, text.length);
  } finally {
    closeSync(opened);
  }
}

/** Version v1alpha1, the only one that there is. */
function metadataText(results: readonly PreparedResult[], generation: number): string {
  const [first] = results;
  if (first === undefined) throw new RangeError("no result");
  const { namespace, name, uid, podClaimName, request, subrequest } = first.allocation.holder;
  const object = present({
    apiVersion: "metadata.resource.k8s.io/v1alpha1",
    kind: "DeviceMetadata",
    metadata: { name, namespace, uid, generation },
    podClaimName,
    requests: [
      {
        name: subrequest === undefined ? request : `${request}/${subrequest}`,
        devices: results.map(deviceOf),
      },
    ],
  });
  return `${JSON.stringify(object)}\n`;
}

function deviceOf({ allocation: { holder }, port }: PreparedResult): object {
  const ips = port.lease?.given?.ips.map(({ address }) => address);
  return {
    ...{ driver: DRA_DRIVER, pool: holder.slicePool, name: holder.device },
    attributes: present({
      "vhost-user-path": { string: port.podSocketPath },
      mtu: port.mtu === undefined ? undefined : { int: port.mtu },
    }),
    networkData: present({ interfaceName: shownInterface(holder), ips, hardwareAddress: port.mac }),
  };
}

/** A file's text; undefined where there is no such file. */
export function readText(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** 0 for metadata that does not exist or cannot be parsed. */
function generationOf(text: string | undefined): number {
  try {
    const { metadata } = JSON.parse(text ?? "{}") as {
      readonly metadata?: { readonly generation?: unknown };
    };
    return Number(metadata?.generation ?? 0) || 0;
  } catch {
    return 0;
  }
}
