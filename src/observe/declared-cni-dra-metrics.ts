import { counter, type DeclaredMetrics, FAST, gauge, histogram } from "./declared-metrics.ts";

/** A plugin has 15 s. */
const PLUGIN = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15];

/** Every metric of `/metrics` of the driver cni-dra, beside those of {@link PROCESS_METRICS} and `vhostuser_events_total`. */
export const CNI_DRA_METRICS = {
  vhostuser_cni_dra_claim_calls_total: counter(
    ["call", "code"],
    "Claims that kubelet wanted prepared or unprepared; code is ok or that of the failure.",
  ),
  vhostuser_cni_dra_plugin_call_duration_seconds: histogram(
    ["verb", "outcome"],
    PLUGIN,
    "Duration of a call of a CNI plugin.",
  ),
  vhostuser_cni_dra_hook_duration_seconds: histogram(
    ["hook", "outcome"],
    FAST,
    "Duration of what the driver does for an event of the container runtime, with the plugins that it calls.",
  ),
  vhostuser_cni_dra_interfaces: gauge(
    ["state"],
    "Interfaces of claims: there (added), being made (adding), to be removed (deleting), or without a sandbox (prepared).",
  ),
  vhostuser_cni_dra_failing_dels: gauge([], "Interfaces with a DEL that has failed and is tried again."),
  vhostuser_cni_dra_stuck_dels: gauge([], "Those of them whose DEL has failed for ten minutes."),
  vhostuser_cni_dra_runtime_connected: gauge(
    [],
    "1 while the container runtime reports its sandboxes, else 0: no claim is prepared.",
  ),
  vhostuser_cni_dra_kubelet_registered: gauge([], "1 while kubelet has the driver registered, else 0."),
} satisfies DeclaredMetrics;
