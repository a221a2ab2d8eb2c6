import { destination, type Logger, pino } from "pino";

export type { Logger } from "pino";

/** How much is logged, and where to. */
export interface LoggerOptions {
  /** pino level; `info` in production. */
  readonly level: string;
  /** File descriptor, 2 (stderr) where stdout belongs to a protocol. */
  readonly fd?: number;
  readonly program: string;
}

/** A JSON-lines logger, written synchronously so that the last line before a crash is not lost. */
export function createLogger(options: LoggerOptions): Logger {
  return pino(
    { level: options.level, base: { program: options.program }, timestamp: pino.stdTimeFunctions.isoTime },
    destination({ dest: options.fd ?? 1, sync: true }),
  );
}

/** A logger that says nothing, for tests. */
export const silentLogger: Logger = pino({ level: "silent" });
