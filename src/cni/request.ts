import { Failure } from "../failure/failure.ts";
import type { Delegate } from "../ipam/ipam.ts";
import { parseCniArgs } from "../names/cni-args.ts";
import { isInterfaceName } from "../names/interface-name.ts";
import type { SandboxInterface } from "../records/port-record.ts";
import type { NetworkConfig } from "./network-config.ts";

/** What the shim sends: the CNI_ environment and stdin, nothing checked yet. */
export interface RawRequest {
  /** When the shim started, in milliseconds of CLOCK_MONOTONIC. */
  readonly startedAtMs: number;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: Buffer;
  /** Has the shim run IPAM plugins. */
  readonly delegate: Delegate;
}

/** Key of a sandbox's interface. */
export function attachmentKey({ containerId, interfaceName }: SandboxInterface): string {
  return `${containerId}/${interfaceName}`;
}

/** A sandbox's interface and the pod that it is for. */
export interface AttachmentRequest extends SandboxInterface {
  readonly netns: string;
  readonly podNamespace: string;
  readonly podName: string;
  readonly podUid: string;
  /** CNI_ARGS, unchecked. */
  readonly args: Readonly<Record<string, string>>;
  readonly config: NetworkConfig;
  readonly raw: RawRequest;
}

/** Container ids and network names (CNI spec, section 2): also what keeps them from being paths. */
const IDENTIFIER = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

/** Which sandbox and interface a verb is about (CNI spec 1.1.0, section 2). @throws Failure `invalid-request` */
export function parseSandboxInterface(
  env: Readonly<Record<string, string>>,
  needed: readonly string[] = ["CNI_CONTAINERID", "CNI_IFNAME"],
): SandboxInterface {
  const missing = needed.filter((name) => (env[name] ?? "") === "");
  if (missing.length > 0) {
    throw new Failure({
      code: "invalid-request",
      what: `environment variables missing: ${missing.join(", ")}`,
      where: `CNI ${env["CNI_COMMAND"]}`,
      fix: "the container runtime or Multus must set them",
    });
  }
  const containerId = env["CNI_CONTAINERID"] ?? "";
  const interfaceName = env["CNI_IFNAME"] ?? "";
  if (!IDENTIFIER.test(containerId)) throw badVariable("CNI_CONTAINERID", containerId);
  if (!isInterfaceName(interfaceName)) throw badVariable("CNI_IFNAME", interfaceName);
  return { containerId, interfaceName };
}

/** Checks the environment and stdin of ADD and CHECK. */
export function parseAttachmentRequest(
  raw: RawRequest,
  parseConfig: (stdin: Buffer) => NetworkConfig,
): AttachmentRequest {
  const { env } = raw;
  const target = parseSandboxInterface(env, ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS"]);
  const args = parseCniArgs(env["CNI_ARGS"] ?? "");
  return {
    ...target,
    netns: env["CNI_NETNS"] ?? "",
    podNamespace: args["K8S_POD_NAMESPACE"] ?? "",
    podName: args["K8S_POD_NAME"] ?? "",
    podUid: args["K8S_POD_UID"] ?? "",
    args,
    config: parseConfig(raw.stdin),
    raw,
  };
}

function badVariable(name: string, value: string): Failure {
  return new Failure({
    code: "invalid-request",
    what: `${name}=${JSON.stringify(value)} is not allowed`,
    where: "environment",
    fix: "the CNI specification says which characters it may have",
  });
}
