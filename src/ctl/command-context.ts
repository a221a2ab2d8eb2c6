import type { Screen } from "./terminal.ts";

/** Exit codes of the program. */
export const EXIT = {
  healthy: 0,
  problem: 1,
  /** Wrong usage, or the daemon cannot be reached. */
  unreachable: 2,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** What a command works with. */
export interface CommandContext {
  readonly screen: Screen;
  /** Whether to print JSON. */
  readonly json: boolean;
  /** Path of the daemon's status socket. @throws Failure `invalid-config` */
  readonly socket: () => Promise<string>;
}

/** Prints a value for --json, indented. */
export function printJson({ screen }: Pick<CommandContext, "screen">, value: unknown): void {
  screen.write(`${JSON.stringify(value, undefined, 2)}\n`);
}
