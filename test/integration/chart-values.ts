import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { DEPLOY } from "../manifests/manifest.ts";

/** Values as a user gives them to Helm. */
export type Values = Readonly<Record<string, unknown>>;

/** Kinds of the objects that the chart always makes. */
export const BY_DEFAULT = ["ConfigMap", "DaemonSet", "NetworkPolicy", "ServiceAccount"];

const OVS = { type: "ovs-dpdk", bridge: "br0" };
const VPP = { type: "vpp", bridge: "1" };
const pools = (...dataplanes: Values[]) => ({
  pools: {
    // The chart's own.
    sockets: null,
    ...Object.fromEntries(
      dataplanes.map((dataplane, index) => [
        `p${index}`,
        { resource: `vhostuser/p${index}`, capacity: 8, dataplane },
      ]),
    ),
  },
});

/** Values of the chart, and what it makes of them where that is more than usual. */
export const COMBINATIONS: Readonly<Record<string, { values: Values; kinds?: readonly string[] }>> = {
  "nothing but the chart's own values": { values: {} },
  "the pools of deploy/examples": {
    values: parse(readFileSync(join(DEPLOY, "examples/pools/values.yaml"), "utf8")) as Values,
  },
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
      kubeletDir: "/var/lib/k0s/kubelet",
      cni: { binPath: "/usr/libexec/cni" },
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
      logLevel: "debug",
      resources: {},
      extraEnv: [{ name: "TZ", value: "UTC" }],
      extraVolumes: [{ name: "zones", hostPath: { path: "/usr/share/zoneinfo" } }],
      extraVolumeMounts: [{ name: "zones", mountPath: "/usr/share/zoneinfo", readOnly: true }],
      serviceAccount: { name: "of-the-node", annotations: { e: "f" } },
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
      config: { statusPage: { enabled: true, port: 9500 } },
      openshift: { enabled: true },
    },
    kinds: [...BY_DEFAULT, "ClusterRole", "ClusterRoleBinding", "SecurityContextConstraints"],
  },
  "claims, and another kubelet": {
    values: {
      dra: { enabled: true },
      kubeletDir: "/var/lib/k0s/kubelet",
      config: { dra: { cdiDirectory: "/etc/cdi" }, pools: { sockets: { claims: { ports: 16 } } } },
    },
    kinds: [
      ...[...BY_DEFAULT, "ClusterRole", "ClusterRoleBinding", "DeviceClass"],
      ...["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"],
    ],
  },
  "IPAM on other nodes, and on OpenShift": {
    values: {
      ipam: {
        enabled: true,
        metricsAddress: "::",
        agent: {
          nodeSelector: { pool: "vms" },
          affinity: { nodeAffinity: {} },
          tolerations: [],
          maxUnavailable: 3,
        },
        controller: { replicas: 1, tolerations: [{ operator: "Exists" }], resources: {} },
        claims: { enabled: true, manage: true },
      },
      commonLabels: { team: "net" },
      imagePullSecrets: [{ name: "registry" }],
      openshift: { enabled: true },
    },
    kinds: [
      ...BY_DEFAULT,
      ...["DaemonSet", "Deployment", "NetworkPolicy", "NetworkPolicy", "ServiceAccount", "ServiceAccount"],
      ...["ClusterRole", "ClusterRole", "ClusterRoleBinding", "ClusterRoleBinding", "Role", "RoleBinding"],
      ...Array(3).fill("ValidatingAdmissionPolicy"),
      ...Array(3).fill("ValidatingAdmissionPolicyBinding"),
      ...["SecurityContextConstraints", "SecurityContextConstraints"],
      ...Array.from({ length: 4 }, () => "CustomResourceDefinition"),
    ],
  },
  "the driver of CNI plugins, on OpenShift": {
    values: {
      cniDra: {
        enabled: true,
        allowedPlugins: { macvlan: ["mode"] },
        interfaces: [{ name: "eth1", maxVirtualDevices: 8 }],
        metricsAddress: "::1",
      },
      commonLabels: { team: "net" },
      openshift: { enabled: true },
    },
    kinds: [
      ...[...BY_DEFAULT, "ConfigMap", "DaemonSet", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"],
      ...["DeviceClass", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"],
      ...["SecurityContextConstraints", "SecurityContextConstraints"],
    ],
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
    values: { kubevirt: { sharedLinks: true, sidecarClaims: true, plugin: true, hotplugWarning: true } },
    kinds: [
      ...BY_DEFAULT,
      ...["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"].flatMap((kind) => [kind, kind, kind]),
      ...["Plugin", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"],
    ],
  },
  "a network of each pool": {
    values: {
      config: pools(OVS, VPP),
      networks: [
        { name: "net-a", namespace: "tests", pool: "p0", config: { mtu: 9000, vlan: 100 } },
        { name: "100", pool: "p1", config: { capabilities: { mac: false }, ipam: { type: "static" } } },
      ],
    },
    kinds: [...BY_DEFAULT, "NetworkAttachmentDefinition", "NetworkAttachmentDefinition"],
  },
};
