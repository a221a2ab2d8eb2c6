/** What differs between the containerd of a node and one for NRI alone; default the usual paths. */
export interface ContainerdOptions {
  readonly socket: string;
  readonly runc: string;
  readonly pauseImage: string;
  readonly nriSocket?: string;
  readonly cdiDirectory?: string;
}

/** A configuration that containerd 1.7 and 2 read, with what 1.7 has off by default: CDI and NRI. */
export function containerdConfig(options: ContainerdOptions): string {
  const { socket, runc, pauseImage, nriSocket = "/run/nri/nri.sock", cdiDirectory = "/run/cdi" } = options;
  return `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "${socket}"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  socket_path = "${nriSocket}"
  plugin_path = "/run/no-plugins"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${pauseImage}"
  enable_cdi = true
  cdi_spec_dirs = ["${cdiDirectory}"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "${runc}"
`;
}
