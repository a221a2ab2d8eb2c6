/** kubelet's question which of the free devices a container should best get. */
export interface PreferenceRequest {
  /** Free devices, the must-include ones among them. */
  readonly available: readonly string[];
  readonly mustInclude: readonly string[];
  /** How many are wanted in all. */
  readonly size: number;
}

/**
 * The devices to prefer: those that must be in, then the first free ones in the order of their ids. Never an
 * error, which would fail the pod for a mere hint: kubelet tops up a short answer.
 */
export function preferDevices(request: PreferenceRequest): readonly string[] {
  const rest = request.available.filter((id) => !request.mustInclude.includes(id)).sort();
  return [...request.mustInclude, ...rest].slice(0, Math.max(0, request.size));
}
