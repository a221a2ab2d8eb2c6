import { readdirSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { systemCode } from "../failure/failure.ts";
import { checkMac, checkMtu, invalidInfo, type NetworkEntry } from "./network-info.ts";
import { readBounded, readJson, splitJsonStream } from "./read-json.ts";

/** A network's claim as the pod knows it. */
export interface ClaimRequest {
  /** Of a claim that the VM names; `template` of one that Kubernetes made from a template for this pod. */
  readonly kind: "claim" | "template";
  /** The claim's name; with a template the pod's name of it. */
  readonly claim: string;
  readonly request: string;
}

/** Where Kubernetes puts device metadata in a container (KEP-5304). */
export const METADATA_ROOT = "/var/run/kubernetes.io/dra-device-attributes";

/** Versions of the metadata that we can read. */
const API_VERSIONS: readonly string[] = ["metadata.resource.k8s.io/v1alpha1"];
const FILE_SUFFIX = "-metadata.json";
const SOCKET_ATTRIBUTE = "vhost-user-path";
const MTU_ATTRIBUTE = "mtu";

const attributeSchema = z.looseObject({ string: z.string().nullish(), int: z.int().nullish() });
const deviceSchema = z.object({
  driver: z.string(),
  name: z.string(),
  attributes: z.record(z.string(), attributeSchema).nullish(),
  networkData: z.object({ hardwareAddress: z.string().nullish() }).nullish(),
});
const metadataSchema = z.object({
  requests: z.array(z.object({ name: z.string(), devices: z.array(deviceSchema).nullish() })),
});
const headSchema = z.object({ apiVersion: z.string().nullish() });

/**
 * Reads what a DRA driver says of a network's device: its socket, and MTU and MAC where it says them. The file is
 * there before the container starts.
 * @throws Failure `invalid-network-info`
 */
export function readClaimMetadata(request: ClaimRequest, network: string, root: string): NetworkEntry {
  const kind = request.kind === "template" ? "resourceclaimtemplates" : "resourceclaims";
  const directory = join(root, kind, request.claim, request.request);
  const name = onlyFile(directory, network);
  const file = join(directory, name);
  const text = readBounded(file, "invalid-network-info") ?? "";
  return parseClaimMetadata(text, request, `${file}, network ${network}`);
}

/**
 * The device of a claim's request in a metadata file's text.
 * @throws Failure `invalid-network-info`
 */
export function parseClaimMetadata(text: string, request: ClaimRequest, where: string): NetworkEntry {
  const fix = "check the DRA driver that wrote it";
  const contract = { code: "invalid-network-info", where, fix } as const;
  const known = splitJsonStream(text).find((part) =>
    API_VERSIONS.includes(readJson(part, { ...contract, schema: headSchema }).apiVersion ?? ""),
  );
  if (known === undefined) {
    throw invalidInfo(`it has no object of apiVersion ${API_VERSIONS.join(" or ")}`, where, fix);
  }
  const { requests } = readJson(known, { ...contract, schema: metadataSchema });
  const devices = requests
    .filter(({ name }) => name === request.request || name.startsWith(`${request.request}/`))
    .flatMap((one) => one.devices ?? []);
  const [device] = devices;
  if (device === undefined || devices.length > 1) {
    throw invalidInfo(
      `request ${JSON.stringify(request.request)} has ${devices.length} devices, a network is one`,
      where,
      "ask for one device (allocationMode ExactCount, count 1) in the claim's request",
    );
  }
  // A key without a domain is the driver's own, and may be written with it.
  const attribute = (key: string) =>
    device.attributes?.[key] ?? device.attributes?.[`${device.driver}/${key}`];
  const socketPath = attribute(SOCKET_ATTRIBUTE)?.string;
  if (!socketPath) {
    throw invalidInfo(
      `device ${JSON.stringify(device.name)} of driver ${JSON.stringify(device.driver)} has no attribute ${SOCKET_ATTRIBUTE}`,
      where,
      "use a driver that makes vhost-user sockets, with device metadata switched on",
    );
  }
  const mtu = attribute(MTU_ATTRIBUTE)?.int;
  const mac = device.networkData?.hardwareAddress;
  return {
    socketPath,
    mac: mac ? checkMac(mac, where) : undefined,
    mtu: mtu ? checkMtu(mtu, where) : undefined,
  };
}

/** KubeVirt, too, takes exactly one driver for a request. */
function onlyFile(directory: string, network: string): string {
  let names: string[] = [];
  try {
    names = readdirSync(directory).filter((name) => name.endsWith(FILE_SUFFIX));
  } catch (cause) {
    if (systemCode(cause) !== "ENOENT") {
      throw invalidInfo(
        `it cannot be read: ${systemCode(cause)}`,
        directory,
        "give the sidecar's user the right to read it",
      );
    }
  }
  const [name] = names;
  if (name !== undefined && names.length === 1) return name;
  const found = names.length === 0 ? "no" : `${names.length} files of`;
  throw invalidInfo(
    `network ${network} has ${found} device metadata`,
    directory,
    "the sidecar's container must have the claim too (deploy/kubevirt/sidecar-claims.yaml), from one driver that " +
      "publishes device metadata",
  );
}
