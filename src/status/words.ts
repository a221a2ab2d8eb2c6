import type { InterfaceStatus } from "./shape.ts";

// Words that the status page and vhostuserctl share.

/** An interface, by its name in the VM too where that is known; the device's name where no interface is attached. */
export function interfaceWords({ name, vmNetwork, device }: InterfaceStatus): string {
  return name === undefined ? `device ${device}` : vmNetwork === undefined ? name : `${vmNetwork} (${name})`;
}

const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
] as const;

/**
 * An age as kubectl writes it: its largest unit, and the next one while it is a small number.
 * @param ms negative where two clocks differ, which counts as 0
 */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  for (const [index, [unit, size]] of UNITS.entries()) {
    if (seconds < size) continue;
    const whole = Math.floor(seconds / size);
    const [nextUnit, nextSize] = UNITS[index + 1] ?? ["s", 1];
    const rest = Math.floor((seconds % size) / nextSize);
    return whole < 10 && rest > 0 ? `${whole}${unit}${rest}${nextUnit}` : `${whole}${unit}`;
  }
  return `${seconds}s`;
}

/** A count and its noun: `1 port`, `2 ports`, `2 addresses`. */
export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;
}
