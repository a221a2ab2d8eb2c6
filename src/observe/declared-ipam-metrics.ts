import { counter, type DeclaredMetrics, FAST, gauge, histogram, METRICS } from "./declared-metrics.ts";

/** Every metric of `/metrics` of the IPAM agent, beside those of {@link PROCESS_METRICS}. */
export const IPAM_AGENT_METRICS = {
  vhostuser_ipam_requests_total: counter(
    ["verb", "code"],
    "Requests of CNI plugins for addresses; code is ok or that of the failure.",
  ),
  vhostuser_ipam_request_duration_seconds: histogram(
    ["verb", "outcome"],
    FAST,
    "Duration of a request of a CNI plugin for addresses.",
  ),
  vhostuser_ipam_node_addresses: gauge(
    ["pool", "state"],
    "Addresses of the pool in this node's blocks: used, free, or resting after their release.",
  ),
  vhostuser_ipam_node_blocks: gauge(
    ["state"],
    "Blocks of this node: bound, being given back (releasing), or lost because another owner has them.",
  ),
  vhostuser_ipam_confirmed: gauge(
    [],
    "1 once the API server has confirmed this node's blocks since the node was booted, else 0: no address is handed out.",
  ),
  vhostuser_ipam_suspects: gauge(
    [],
    "Sandboxes with addresses whose network namespace is gone and whose pod is not known to be gone.",
  ),
  vhostuser_ipam_collected_total: counter(
    [],
    "Sandboxes whose addresses were released without a DEL, because pod and network namespace are gone.",
  ),
} satisfies DeclaredMetrics;

/** Every metric of `/metrics` of the IPAM controller, beside those of {@link PROCESS_METRICS} and `vhostuser_events_total`. */
export const IPAM_CONTROLLER_METRICS = {
  vhostuser_ipam_pool_addresses: gauge(["pool"], "Addresses that the AddressPool has."),
  vhostuser_ipam_pool_addresses_in_blocks: gauge(
    ["pool"],
    "Addresses of the pool in blocks that have an owner.",
  ),
  vhostuser_ipam_pool_addresses_used: gauge(
    ["pool"],
    "Addresses of the pool that are handed out, as agents last said, or are in quarantine.",
  ),
  vhostuser_ipam_pool_addresses_free: gauge(
    ["pool"],
    "Addresses of the pool that are not used, in blocks or not.",
  ),
  vhostuser_ipam_pool_condition: gauge(
    ["pool", "condition"],
    "1 while this condition of the pool is true, else 0.",
  ),
  vhostuser_ipam_pool_handed_out_twice: gauge(
    ["pool"],
    "1 while pods have addresses of whereabouts that are ours, else 0; of pools with addresses of whereabouts.",
  ),
  vhostuser_ipam_blocks: gauge(
    ["owner", "state"],
    "AddressBlocks by the kind of their owner and their state.",
  ),
  vhostuser_ipam_allocations: gauge(
    [],
    "AddressAllocations: addresses of shared blocks that are handed out or kept.",
  ),
  vhostuser_ipam_unreadable_objects: gauge(
    [],
    "AddressBlocks and AddressSpaces that cannot be read, and are left as they are.",
  ),
  vhostuser_ipam_blocks_quarantined_total: counter([], "Blocks quarantined because their node is gone."),
  vhostuser_ipam_blocks_deleted_total: counter(
    [],
    "Quarantined blocks deleted, so that other nodes can take them.",
  ),
  vhostuser_ipam_allocations_freed_total: counter(
    [],
    "Addresses of shared blocks freed because their pod and node, or their claim, are gone.",
  ),
  vhostuser_ipam_claims: gauge(
    ["state"],
    "IPAMClaims of networks of ours: ready with addresses, pending without, or refused, as their condition says.",
  ),
  vhostuser_ipam_claims_managed: gauge(
    [],
    "1 while the controller makes the IPAMClaims of VMs, 0 while kubevirt/ipam-extensions is installed too.",
  ),
  vhostuser_ipam_claims_published_total: counter([], "IPAMClaims that the controller gave their addresses."),
  vhostuser_ipam_cluster_api_claims: gauge(
    ["state"],
    "IPAddressClaims of Cluster API that name our pools: ready with an address, waiting, or being released.",
  ),
  vhostuser_ipam_passes_total: counter(
    ["outcome"],
    "Looks at all that may be gone; failed where a part could not be read or written, and so is in use.",
  ),
  vhostuser_ipam_last_pass_ok_timestamp_seconds: gauge(
    [],
    "Unix time of the end of the last pass without a failure; 0 before the first.",
  ),
  vhostuser_ipam_controller_leading: gauge(
    [],
    "1 while this replica of the controller has the Lease, else 0.",
  ),
  vhostuser_events_total: METRICS.vhostuser_events_total,
} satisfies DeclaredMetrics;
