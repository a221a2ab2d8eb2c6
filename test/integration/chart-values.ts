/** Values as a user gives them to Helm. */
export type Values = Readonly<Record<string, unknown>>;

/** Kinds of the objects that the chart always makes. */
export const BY_DEFAULT = ["ConfigMap", "DaemonSet", "NetworkPolicy", "ServiceAccount"];

const OVS = { type: "ovs-dpdk", bridge: "br0" };
const VPP = { type: "vpp", bridge: "1" };
const pools = (...dataplanes: Values[]) => ({
  pools: dataplanes.map((dataplane, index) => ({
    name: `p${index}`,
    resource: `vhostuser/p${index}`,
    capacity: 8,
    dataplane,
  })),
});

/** Values of the chart, and what it makes of them where that is more than usual. */
export const COMBINATIONS: Readonly<Record<string, { values: Values; kinds?: readonly string[] }>> = {
  "nothing but the chart's own values": { values: {} },
  "two switches in other places": {
    values: {
      config: pools(
        { ...OVS, database: "/run/ovs-a/db.sock", runDirectory: "/run/ovs-b" },
        { ...VPP, apiSocket: "/run/vpp-a/api.sock" },
        OVS,
        VPP,
      ),
    },
  },
  "directories whose volumes would have one name": {
    values: {
      config: pools(
        ...["/run/a-b", "/run/a/b", `/run${"/x".repeat(40)}`, `/run${"/x".repeat(39)}`].map((directory) => ({
          ...OVS,
          database: `${directory}/db.sock`,
        })),
      ),
    },
  },
  "another kubelet, root, records and sockets": {
    values: {
      kubeletRoot: "/var/lib/k0s/kubelet",
      cni: { binDir: "/usr/libexec/cni" },
      config: {
        root: "/srv/vhostuser",
        recordsDirectory: "/srv/records",
        statusSocket: "/run/elsewhere/status.sock",
        deviceInfoDirectory: "/srv/devinfo",
        observe: { address: "::", port: 9999 },
      },
    },
  },
  "everything of the installation set otherwise": {
    values: {
      namespace: { create: true },
      fullnameOverride: "vhu",
      commonLabels: { team: "net" },
      image: { repository: "registry.example/kvu", digest: `sha256:${"a".repeat(64)}`, pullPolicy: "Always" },
      imagePullSecrets: [{ name: "registry" }],
      cni: { install: false },
      nodeSelector: { dpdk: "true" },
      affinity: { nodeAffinity: {} },
      tolerations: [],
      updateStrategy: { type: "OnDelete" },
      podLabels: { a: "b" },
      podAnnotations: { c: "d" },
      daemon: { logLevel: "debug", resources: {} },
      networkPolicy: { from: [{ namespaceSelector: { matchLabels: { name: "monitoring" } } }] },
    },
    kinds: [...BY_DEFAULT, "Namespace"],
  },
  OpenShift: {
    values: { openshift: { enabled: true } },
    kinds: [...BY_DEFAULT, "SecurityContextConstraints"],
  },
  "events and the page": {
    values: {
      events: { enabled: true },
      statusPage: { enabled: true, port: 9500 },
      openshift: { enabled: true },
    },
    kinds: [...BY_DEFAULT, "ClusterRole", "ClusterRoleBinding", "SecurityContextConstraints"],
  },
  "both monitors, no network policy": {
    values: {
      networkPolicy: { enabled: false },
      monitoring: {
        podMonitor: { enabled: true, interval: "1m", labels: { release: "prometheus" } },
        serviceMonitor: { enabled: true },
      },
    },
    kinds: ["ConfigMap", "DaemonSet", "PodMonitor", "Service", "ServiceAccount", "ServiceMonitor"],
  },
  "policies of KubeVirt's pods": {
    values: { kubevirt: { sharedLinks: true, sidecarClaims: true, plugin: true } },
    kinds: [
      ...BY_DEFAULT,
      ...["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"].flatMap((kind) => [kind, kind, kind]),
      "Plugin",
    ],
  },
  "a network of each pool": {
    values: {
      config: pools(OVS, VPP),
      networks: [
        { name: "net-a", namespace: "tests", pool: "p0", config: { mtu: 9000, vlan: 100 } },
        { name: "net-b", pool: "p1", config: { capabilities: { mac: false }, ipam: { type: "static" } } },
      ],
    },
    kinds: [...BY_DEFAULT, "NetworkAttachmentDefinition", "NetworkAttachmentDefinition"],
  },
};
