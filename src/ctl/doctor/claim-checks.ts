// ResourceClaims: what the DRA driver of this node needs from kubelet, the container runtime and the API server.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { cdiFileName } from "../../dra/cdi.ts";
import { liveClaims } from "../../dra/claim-files.ts";
import { DRA_DRIVER } from "../../dra/dra-context.ts";
import type { SliceSpec } from "../../dra/inventory.ts";
import { SLICES, slicesOf } from "../../dra/resource-slices.ts";
import { mayDo, type Right } from "../../kube-api/access-review.ts";
import { ApiFailure } from "../../kube-api/api-failure.ts";
import type { KubeApi, KubeObject } from "../../kube-api/client.ts";
import { openKubeApiIfAny } from "../../kube-api/open-api.ts";
import { readRecords } from "../../records/records.ts";
import { plural } from "../../status/words.ts";
import {
  type CheckedNode,
  type Finding,
  fine,
  type NodeCheck,
  problem,
  skipped,
  warning,
} from "./node-check.ts";

/** The driver for ResourceClaims, where it is on. That kubelet knows it the check of the daemon shows. */
export const claimsCheck: NodeCheck = async (node, signal) => {
  if (!node.config.dra.enabled) return [fine("off")];
  return [...(await checkFiles(node)), ...(await checkApi(node, signal))];
};

/** Where runtimes look for CDI files if they are not configured otherwise. */
const CDI_DIRECTORIES = ["/etc/cdi", "/var/run/cdi", "/run/cdi"];

/** Longer than kubelet gives a driver for one call: the files come last. */
const PREPARING_MS = 60_000;

/** The files by which the runtime gives containers their claims' sockets. */
async function checkFiles({ config }: CheckedNode): Promise<readonly Finding[]> {
  const { cdiDirectory } = config.dra;
  const { allocations } = await readRecords(config.recordsDirectory);
  const claims = [...liveClaims({ allocations: { list: () => allocations } })];
  const missing = claims.flatMap(([uid, [first]]) =>
    first === undefined ||
    Date.now() - first.createdAt < PREPARING_MS ||
    existsSync(join(cdiDirectory, cdiFileName(uid)))
      ? []
      : [first.holder],
  );
  const findings = missing.map(({ namespace, name, uid }) =>
    problem(
      `claim ${namespace}/${name}: ${join(cdiDirectory, cdiFileName(uid))} is not there`,
      "the daemon writes it in its next pass; until then containers with this claim cannot start. Its log says why if it cannot",
    ),
  );
  if (!CDI_DIRECTORIES.includes(cdiDirectory)) {
    findings.push(
      warning(
        `CDI files go to ${cdiDirectory}`,
        "check that the container runtime reads that directory (cdi_spec_dirs); otherwise leave dra.cdiDirectory out",
      ),
    );
  }
  return findings.length > 0 ? findings : [fine(`${cdiDirectory}: ${plural(claims.length, "claim")}`)];
}

const CLAIMS = { group: "resource.k8s.io", plural: "resourceclaims" };
const NODES = { group: "", version: "v1", plural: "nodes" };
/** What the driver does, as docs/dra.md lists it. */
const RIGHTS: readonly Right[] = [
  { verb: "get", ...CLAIMS },
  { verb: "patch", ...CLAIMS, subresource: "status" },
  { verb: "associated-node:patch", ...CLAIMS, subresource: "driver", name: DRA_DRIVER },
  ...["list", "watch", "create", "update", "delete"].map((verb) => ({ verb, ...SLICES })),
  { verb: "get", ...NODES },
];

/** With the daemon's own token, which is in its container alone. */
async function checkApi({ config, host }: CheckedNode, signal: AbortSignal): Promise<readonly Finding[]> {
  let none = "";
  const opened = openKubeApiIfAny("dra", config.dra, host.apiServer, (reason) => {
    none = reason;
  });
  if (opened === undefined) return [skipped(`the API server: ${none}; run this in the daemon's container`)];
  const { api, url } = opened;
  try {
    const lacking: Right[] = [];
    for (const right of RIGHTS) if (!(await mayDo(right, api, signal))) lacking.push(right);
    if (lacking.length > 0) {
      return [
        problem(
          `the token lacks the rights to ${lacking.map(describeRight).join(", ")}`,
          "install the chart with dra.enabled: true, which grants them; docs/dra.md lists them",
        ),
      ];
    }
    return [
      fine(`API server ${url}, with all rights`),
      ...checkVersions(await api.get(NODES, config.node, signal)),
      ...(await checkSlices(config, api, signal)),
    ];
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    const cure = "no claim is prepared until this is repaired; the daemon keeps retrying";
    return [problem(`${error.what} (${error.where})`, cure)];
  } finally {
    api.close();
  }
}

function describeRight({ verb, plural: of, subresource }: Right): string {
  return `${verb} ${subresource === undefined ? of : `${of}/${subresource}`}`;
}

/** Kubelet has called drivers by a version of its API that this one serves since then; by default since the second. */
const OLDEST_KUBELET = 32;
const KUBELET_BY_DEFAULT = 34;

/** Releases of kubelet and of the runtime, as kubelet wrote them into the node. */
function checkVersions({ status }: KubeObject): readonly Finding[] {
  const { kubeletVersion = "", containerRuntimeVersion: runtime = "" } =
    (status as { readonly nodeInfo?: Readonly<Record<string, string>> } | undefined)?.nodeInfo ?? {};
  const [, minor = Number.NaN] = /^v1\.(\d+)/.exec(kubeletVersion)?.map(Number) ?? [];
  const [, major = Number.NaN, second = Number.NaN] =
    /^containerd:\/\/v?(\d+)\.(\d+)/.exec(runtime)?.map(Number) ?? [];
  const findings: Finding[] = [];
  if (minor < OLDEST_KUBELET)
    findings.push(
      problem(`kubelet ${kubeletVersion} cannot call this driver`, "upgrade it to Kubernetes 1.34"),
    );
  else if (minor < KUBELET_BY_DEFAULT) {
    const cure = "set its feature gate DynamicResourceAllocation, or upgrade it to Kubernetes 1.34";
    findings.push(warning(`kubelet ${kubeletVersion} has no ResourceClaims by default`, cure));
  }
  if (major < 1 || (major === 1 && second < 7))
    findings.push(problem(`${runtime} has no CDI`, "upgrade containerd to 2.0, or to 1.7 with enable_cdi"));
  else if (major === 1) {
    const cure = "set enable_cdi = true in its configuration, or upgrade it to 2.0";
    findings.push(warning(`${runtime} has CDI off by default`, cure));
  }
  return findings.length > 0 ? findings : [fine(`kubelet ${kubeletVersion}, ${runtime}`)];
}

/** What the scheduler can give out on this node. */
async function checkSlices(
  { node, pools }: CheckedNode["config"],
  api: KubeApi,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const { objects } = await api.list(SLICES, slicesOf(node), signal);
  const devices = objects.flatMap(({ spec }) => (spec as SliceSpec).devices ?? []);
  if (devices.length > 0)
    return [fine(`${plural(devices.length, "device")} in ${plural(objects.length, "ResourceSlice")}`)];
  if (objects.length === 0) {
    const cure =
      "the daemon publishes them when it has registered with kubelet; its log says why if it cannot";
    return [problem("this node has no ResourceSlice of the driver", cure)];
  }
  return pools.some(({ claims }) => claims !== undefined && claims.ports > 0)
    ? [
        problem(
          "no device is offered to claims",
          "the switches of the pools with claims are away: see the check of the switch",
        ),
      ]
    : [warning("no device is offered to claims", "set claims.ports of a pool")];
}
