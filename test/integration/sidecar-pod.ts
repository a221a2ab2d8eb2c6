import { chown, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type LibvirtNode, startLibvirtNode } from "../lab/libvirt-node.ts";
import { type Container, startPod } from "../lab/pod.ts";
import type { LabRun } from "../machine/lab-run.ts";
import {
  type NetworkStatus,
  networkInfo,
  projectNetworkInfo,
} from "../stand-in/virt-launcher/network-info.ts";
import {
  type KubevirtVersion,
  VirtLauncher,
  type VirtLauncherOptions,
} from "../stand-in/virt-launcher/virt-launcher.ts";
import type { VirtualMachineInstance } from "../stand-in/virt-launcher/vmi.ts";

/** A pod with libvirt in `compute` and the real sidecar beside it, both with the paths that KubeVirt gives them. */
export interface SidecarPod {
  readonly libvirt: LibvirtNode;
  /** The shared volume, `/var/run/kubevirt-hooks` of compute, as the machine sees it. */
  readonly hooks: string;
  /** `/var/run/vhostuser/sockets` of compute as the machine sees it. */
  readonly constantMount: string;
  /** Another plugin's mount, `/var/run/foreign` in compute. */
  readonly foreignMount: string;
  /** Root of the DRA metadata that the sidecar sees. */
  readonly metadata: string;
  /** Starts the sidecar's container, as KubeVirt's user without any capability. */
  startSidecar(): Promise<Container>;
  /** The compute container's launcher; a new one knows no sidecar yet. */
  launcher(kubevirtVersion: KubevirtVersion, options?: Partial<VirtLauncherOptions>): VirtLauncher;
  /** Publishes the pod's network-status as virt-controller and kubelet do. */
  publish(vmi: VirtualMachineInstance, statuses: readonly NetworkStatus[]): Promise<void>;
}

const KUBEVIRT_USER = 107;
const PROJECT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

/** How a release lays out the hooks directory: since 1.6 a sidecar has a name and sees its own part only. */
export type HooksLayout = "flat" | "nested";

/** What a pod has beyond what KubeVirt gives every one. */
export interface SidecarPodOptions {
  /** Name of the sidecar's container; it depends on the order of a map in KubeVirt. */
  readonly container?: string;
  /** Mounts one emptyDir in both containers, as deploy/kubevirt/shared-links.yaml does. */
  readonly sharedLinks?: boolean;
}

/** Makes the pod; all of it goes with the run. */
export async function startSidecarPod(
  run: LabRun,
  name: string,
  layout: HooksLayout,
  options: SidecarPodOptions = {},
): Promise<SidecarPod> {
  const pod = await startPod(run, name);
  const [hooks, podinfo, constantMount, foreignMount, metadata, links] = (await Promise.all(
    ["hooks", "podinfo", "constant", "foreign", "metadata", "links"].map(async (part) => {
      const directory = join(pod.directory, part);
      await mkdir(directory);
      await chown(directory, KUBEVIRT_USER, KUBEVIRT_USER);
      return directory;
    }),
  )) as [string, string, string, string, string, string];
  const container = layout === "nested" ? (options.container ?? "hook-sidecar-0") : undefined;
  const shared =
    options.sharedLinks === true ? [{ hostPath: links, containerPath: "/var/run/vhostuser-links" }] : [];
  const own = container === undefined ? hooks : join(hooks, container);
  await mkdir(own, { recursive: true });
  await chown(own, KUBEVIRT_USER, KUBEVIRT_USER);
  const libvirt = await startLibvirtNode(pod, {
    mounts: [
      { hostPath: hooks, containerPath: "/var/run/kubevirt-hooks" },
      { hostPath: constantMount, containerPath: "/var/run/vhostuser/sockets", readOnly: false },
      { hostPath: foreignMount, containerPath: "/var/run/foreign" },
      ...shared,
    ],
  });
  let started = 0;
  return {
    libvirt,
    hooks,
    constantMount,
    foreignMount,
    metadata,
    startSidecar: () =>
      pod.startContainer({
        name: `sidecar-${started++}`,
        readOnlyRoot: true,
        command: [process.execPath, join(PROJECT, "dist/sidecar/main.mjs")],
        uid: KUBEVIRT_USER,
        mounts: [
          { hostPath: PROJECT, containerPath: PROJECT, readOnly: true },
          { hostPath: own, containerPath: "/var/run/kubevirt-hooks" },
          { hostPath: podinfo, containerPath: "/etc/podinfo", readOnly: true },
          {
            hostPath: metadata,
            containerPath: "/var/run/kubernetes.io/dra-device-attributes",
            readOnly: true,
          },
          ...shared,
        ],
        ...(container === undefined ? {} : { env: { CONTAINER_NAME: container } }),
      }),
    launcher: (kubevirtVersion, options = {}) =>
      new VirtLauncher({
        hooksDirectory: hooks,
        kubevirtVersion,
        libvirt,
        domainType: "qemu",
        collectTimeoutMs: 60_000,
        ...options,
      }),
    publish: (vmi, statuses) => projectNetworkInfo(join(podinfo, "network-info"), networkInfo(vmi, statuses)),
  };
}
