// The container runtimes that the tests of NRI know: how each is configured, started and given an image.
import { join } from "node:path";
import { containerdConfig } from "./containerd-config.ts";
import { kubernetesParts, shimDirectory } from "./kubernetes-parts.ts";
import { PAUSE } from "./local-image.ts";
import type { NodeMachine } from "./node-machine.ts";

/** Optional: a directory with crio and pinns, which then replaces containerd. conmon, buildah and runc are the machine's. */
const CRIO_VARIABLE = "CRIO_DIR";
const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";

/** Where a runtime has what this machine sees too. */
export interface RuntimePlaces {
  readonly socket: string;
  readonly nriSocket: string;
  readonly cdiDirectory: string;
}

/** A container runtime with CRI and NRI. */
export interface RuntimeProgram {
  /** As it names itself to plugins. */
  readonly name: "containerd" | "cri-o";
  /** Path of its configuration file, and the content. */
  config(places: RuntimePlaces): readonly [path: string, content: string];
  /** The program and its arguments. */
  readonly command: readonly string[];
  /** Loads the archive of {@link PAUSE} while it runs. */
  loadImage(machine: NodeMachine, archive: string, places: RuntimePlaces): Promise<unknown>;
}

/** CRI-O where the environment names one, else containerd. @throws Failure part-missing */
export function runtimeProgram(env: Readonly<NodeJS.ProcessEnv>): RuntimeProgram {
  const directory = env[CRIO_VARIABLE];
  return directory ? crio(directory, kubernetesParts(env, ["runc"])) : containerd(env);
}

function containerd(env: Readonly<NodeJS.ProcessEnv>): RuntimeProgram {
  const parts = kubernetesParts(env, ["containerd", "ctr", "runc"]);
  const file = "/etc/containerd/config.toml";
  return {
    name: "containerd",
    config: (places) => [file, containerdConfig({ ...places, runc: parts.runc, pauseImage: PAUSE.name })],
    command: ["env", `PATH=${shimDirectory(parts)}:${PATH}`, parts.containerd, "--config", file],
    loadImage: (machine, archive, { socket }) =>
      machine.exec(parts.ctr, ["-a", socket, "-n", "k8s.io", "images", "import", archive]),
  };
}

function crio(directory: string, { runc }: { readonly runc: string }): RuntimeProgram {
  const file = "/etc/crio/crio.conf";
  const storage = { root: "/var/lib/containers/crio", runroot: "/run/containers/crio" };
  const config = ({ socket, nriSocket, cdiDirectory }: RuntimePlaces) => `[crio]
root = "${storage.root}"
runroot = "${storage.runroot}"
storage_driver = "vfs"
[crio.api]
listen = "${socket}"
[crio.runtime]
default_runtime = "runc"
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
pinns_path = "${join(directory, "pinns")}"
cdi_spec_dirs = ["${cdiDirectory}"]
[crio.runtime.runtimes.runc]
runtime_path = "${runc}"
monitor_path = "/usr/bin/conmon"
[crio.image]
pause_image = "${PAUSE.name}"
[crio.network]
network_dir = "/etc/cni/net.d"
plugin_dirs = ["/opt/cni/bin"]
[crio.nri]
enable_nri = true
nri_listen = "${nriSocket}"
nri_plugin_dir = "/run/no-plugins"
`;
  return {
    name: "cri-o",
    config: (places) => [file, config(places)],
    command: ["env", `PATH=${PATH}`, join(directory, "crio"), "--config", file, "--config-dir="],
    async loadImage(machine, archive) {
      const { root, runroot } = storage;
      const buildah = ["--root", root, "--runroot", runroot, "--storage-driver", "vfs"];
      const { stdout } = await machine.exec("buildah", [...buildah, "pull", `oci-archive:${archive}`]);
      await machine.exec("buildah", [...buildah, "tag", stdout.trim(), PAUSE.name]);
    },
  };
}
