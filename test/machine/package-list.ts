/** A Debian package that the lab needs. */
export interface NeededPackage {
  readonly name: string;
  /** At least this version; older ones count as missing. */
  readonly minimum?: string;
  /** Whether the demo does without it. */
  readonly isForTestsOnly?: boolean;
}

/** What the packages are for: the demo needs a part of what the tests need. */
export type Purpose = "demo" | "tests";

/** Where packages come from: Debian 12 itself or its backports. */
export type PackageOrigin = "bookworm" | "bookworm-backports";

/** Names of the packages that only their file is taken from, nothing is installed. */
export const UNPACKED_PACKAGES = {
  guestKernel: "linux-image-cloud-amd64",
  testpmd: "dpdk-dev",
  promtool: "prometheus",
  /** A source package: libvirt's own test domains. */
  libvirtDomains: "libvirt",
} as const;

/** dpdk-testpmd's own libraries: Debian links it to all of them. */
const TESTPMD_LIBRARIES = [
  "ibverbs-providers",
  ...["bitratestats23", "bpf23", "bus-auxiliary23", "bus-dpaa23", "cmdline23", "common-dpaax23"],
  ...["common-iavf23", "common-mlx5-23", "crypto-scheduler23", "eventdev23", "gro23", "gso23", "ip-frag23"],
  ...[
    "latencystats23",
    "mempool-dpaa23",
    "metrics23",
    "net-bnxt23",
    "net-bond23",
    "net-dpaa23",
    "net-i40e23",
  ],
  ...["net-ice23", "net-ixgbe23", "net-mlx5-23", "pcapng23", "pdump23", "reorder23", "sched23", "security23"],
  "timer23",
].map((name) => (name === "ibverbs-providers" ? name : `librte-${name}`));

/**
 * What is installed, by origin. Recommended packages are left out, so the DPDK drivers are named: without
 * librte-mempool-ring23 every port fails. QEMU 7.2 of Debian 12 proper crashes when a vhost-user device starts under
 * TCG, hence backports. libvirt without libvirt-daemon-system: the lab starts libvirtd itself and wants no services.
 */
export const NEEDED_PACKAGES: Readonly<Record<PackageOrigin, readonly NeededPackage[]>> = {
  bookworm: [
    ...["openvswitch-switch-dpdk", "librte-bus-vdev23", "librte-mempool-ring23", "librte-net-af-packet23"],
    ...["librte-net-null23", "librte-net-vhost23", "librte-net-virtio23", ...TESTPMD_LIBRARIES],
    ...["busybox-static", "cpio", "gcc", "iproute2", "libc6-dev", "musl-tools"],
    ...testsOnly("containernetworking-plugins", "libxml2-utils", "xz-utils", "chromium", "buildah", "runc"),
    ...testsOnly("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user", "dhcpcd-base"),
  ].map((one) => (typeof one === "string" ? { name: one } : one)),
  "bookworm-backports": [
    { name: "qemu-system-x86", minimum: "1:10" },
    { name: "libvirt-daemon", minimum: "11" },
    { name: "libvirt-daemon-driver-qemu", minimum: "11" },
    { name: "libvirt-clients", minimum: "11" },
  ],
};

/** The source packages that may come from backports; everything else stays at Debian 12's own version. */
export const BACKPORTED_SOURCES = ["qemu", "libvirt", "seabios"] as const;

function testsOnly(...names: readonly string[]): readonly NeededPackage[] {
  return names.map((name) => ({ name, isForTestsOnly: true }));
}
