/** Milliseconds of the system's CLOCK_MONOTONIC, which all processes of a node share and nobody sets. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
