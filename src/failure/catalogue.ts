/**
 * Every failure code there is, with what it means. Codes are stable: operators grep for them and runbooks
 * name them, so a code is never re-used for something else. Each wire (gRPC, CNI) maps them in one place.
 */
export const FAILURE_CODES = {
  "invalid-config": "The daemon's configuration file is wrong.",
  "invalid-request":
    "A caller (kubelet, the container runtime, Multus, virt-launcher) sent something malformed.",
  "invalid-network-config": "The CNI network configuration (NetworkAttachmentDefinition) is wrong.",
  "invalid-claim": "A ResourceClaim, or the configuration of it or its DeviceClass, is wrong.",
  "invalid-address-object":
    "An IPAM object in the Kubernetes API (space, pool, block, allocation or claim) is wrong.",
  "invalid-network-info": "KubeVirt's network-info, or the device-info in it, is malformed.",
  "invalid-vmi": "The VirtualMachineInstance requests something that vhost-user does not support.",
  "invalid-domain": "The libvirt domain XML is malformed or conflicts with what vhost-user needs.",
  undecodable: "A caller sent something that is not JSON.",
  "unsupported-field": "The network configuration has a field that this plugin cannot honour.",
  "daemon-unavailable": "The daemon does not run on this node, or did not answer.",
  "ipam-agent-unavailable": "The IPAM agent does not run on this node, or did not answer.",
  "cni-dra-unavailable": "The driver cni-dra does not run on this node, or did not answer.",
  "not-ready": "The node cannot attach anything now (CNI STATUS).",
  "unsupported-cni-version":
    "The network configuration asks for a CNI version that this plugin does not speak.",
  "path-too-long": "A unix socket path is longer than the 107 bytes that the kernel allows.",
  "unknown-device": "No allocation record holds this device.",
  "attachment-conflict":
    "The interface is already attached with another device, or its device belongs to another pod.",
  busy: "An earlier request for the same interface is still running.",
  superseded: "The interface was detached, or attached to a newer sandbox, while its ADD was still running.",
  "port-conflict": "A port of this name exists in the switch and is not ours.",
  "bridge-missing": "The bridge does not exist in the switch.",
  "vrf-missing": "The routing table does not exist in the switch.",
  "dataplane-misconfigured": "The switch or the bridge, as configured, cannot hold vhost-user ports.",
  "port-failed": "The switch accepted the port and reported an error for it.",
  "setting-unsupported": "The network requests something that this kind of switch does not support.",
  "dataplane-unavailable": "The switch cannot be reached.",
  "dataplane-timeout": "The switch did not apply the change in time.",
  "dataplane-protocol": "The switch answered with something its protocol does not allow.",
  "ipam-failed": "The IPAM plugin answered with an error, or with nothing that CNI allows.",
  "ipam-missing": "The IPAM plugin is not where the runtime looks for CNI plugins, or cannot be executed.",
  "ipam-interrupted": "The CNI executable ended, or time was up, while the IPAM plugin was running.",
  "cni-plugin-failed": "A CNI plugin of a claim answered with an error, or with nothing that CNI allows.",
  "cni-plugin-missing":
    "A CNI plugin of a claim is not in the node's directory of plugins, or cannot be executed.",
  "pool-missing": "A network names an AddressPool or AddressSpace that does not exist or cannot be used.",
  "pool-exhausted": "A pool has no free address for this node.",
  "address-refused": "A requested address cannot be given.",
  "ipam-claim-missing": "The IPAMClaim of an interface is not there yet, or is being deleted.",
  "ipam-claim-refused": "An interface cannot use the IPAMClaim that it names, or names it wrongly.",
  "kubelet-unavailable": "A kubelet socket cannot be reached or refused the call.",
  "runtime-unavailable": "The container runtime's NRI socket cannot be reached, or was closed.",
  "runtime-protocol": "The container runtime refused the plugin, or sent something that NRI does not allow.",
  "kube-api-unavailable": "The Kubernetes API server cannot be reached, or cannot answer now.",
  "kube-api-refused": "The Kubernetes API server refused a request.",
  "record-unreadable": "A record on disk is damaged, or of a newer version than this release reads.",
  "record-unwritable": "A record cannot be written: the disk is full, read-only or failing.",
  "network-info-timeout": "KubeVirt's network-info did not list the interface in time.",
  "directory-unsafe": "A pod's directory has something that must not be there, for example a link.",
  "root-missing": "The directory of all allocations is not there.",
  "root-insecure": "The root's mount lacks an option that isolates its pods.",
  "root-busy": "The root cannot be mounted, because something else is there.",
  "root-full": "The root's file system has no space for another directory.",
  "capability-missing": "The daemon lacks a Linux capability that it needs.",
  "label-refused": "The SELinux policy does not let the daemon set a directory's label.",
  "cni-directory-unusable": "The CNI executable cannot be installed in the node's directory.",
  "check-failed": "CNI CHECK found that the attachment has changed.",
  "part-missing": "A required program, package or kernel feature is missing on this machine.",
  internal: "An unexpected error, a defect of kube-vhostuser.",
} as const satisfies Record<string, string>;

/** A code of {@link FAILURE_CODES}. */
export type FailureCode = keyof typeof FAILURE_CODES;
