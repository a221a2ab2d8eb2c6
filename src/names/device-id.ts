/** Longest pool name, so that a device id stays far below the 63 characters that kubelet's API names. */
export const POOL_NAME_MAX = 32;

/** Directory of claims beside those of pools in a pod, so no pool has this name. */
export const CLAIMS_DIRECTORY = "claims";

/** Whether a text may name a pool: a DNS label of at most {@link POOL_NAME_MAX} characters. */
export function isPoolName(text: string): boolean {
  return text.length <= POOL_NAME_MAX && /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(text);
}

/**
 * The id that kubelet sees for one device. It names its pool, because CNI hands over the id alone, and its
 * number has five digits so that Multus' lexicographic order is the numeric one.
 */
export function deviceId(pool: string, index: number): string {
  return `${pool}-${String(index).padStart(5, "0")}`;
}

/** Pool and index of a device id, or undefined where it is not one of ours. */
export function parseDeviceId(id: string): { pool: string; index: number } | undefined {
  const match = /^(.+)-(\d{5})$/.exec(id);
  if (match?.[1] === undefined || match[2] === undefined || !isPoolName(match[1])) return undefined;
  return { pool: match[1], index: Number(match[2]) };
}
