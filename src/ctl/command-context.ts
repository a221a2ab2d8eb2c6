import type { Screen } from "./terminal/screen.ts";

/** What a command works with. */
export interface CommandContext {
  readonly screen: Screen;
  /** Whether to print JSON. */
  readonly json: boolean;
  /** Where the daemon's status is. @throws Failure `invalid-config` */
  readonly socket: () => Promise<string>;
  /** Ends a command that goes on until told to stop. */
  readonly signal: AbortSignal;
}

/** Prints a value as --json does: indented, since people look at it too; tools do not mind. */
export function printJson({ screen }: Pick<CommandContext, "screen">, value: unknown): void {
  screen.write(`${JSON.stringify(value, undefined, 2)}\n`);
}
