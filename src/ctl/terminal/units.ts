const STEPS = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
] as const;

/** An age as kubectl writes it: its largest unit, and the next one while it is a small number. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  for (const [index, [unit, size]] of STEPS.entries()) {
    if (seconds < size) continue;
    const whole = Math.floor(seconds / size);
    const [nextUnit, nextSize] = STEPS[index + 1] ?? ["s", 1];
    const rest = Math.floor((seconds % size) / nextSize);
    return whole < 10 && rest > 0 ? `${whole}${unit}${rest}${nextUnit}` : `${whole}${unit}`;
  }
  return `${seconds}s`;
}

const PREFIXES = ["", "k", "M", "G", "T", "P"];

/** A count or rate in at most six characters, such as 999, 1.2k, 14.8M. */
export function short(value: number): string {
  let rest = value;
  let prefix = 0;
  // Rounded first: 999.96k is 1.0M and not 1000.0k.
  while (rest >= (prefix === 0 ? 999.5 : 999.95) && prefix < PREFIXES.length - 1) {
    rest /= 1000;
    prefix += 1;
  }
  return prefix === 0 ? String(Math.round(rest)) : `${rest.toFixed(1)}${PREFIXES[prefix]}`;
}

/** A number with its noun: `1 port`, `2 ports`. */
export function plural(count: number, noun: string, many = `${noun}s`): string {
  return `${count} ${count === 1 ? noun : many}`;
}
