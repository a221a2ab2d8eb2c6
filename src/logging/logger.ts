import { destination, pino } from "pino";
import type { LogFields } from "./fields.ts";

interface LogLine {
  (fields: LogFields, message: string): void;
  (message: string): void;
}

/** Writes JSON lines; the compiler accepts no field that {@link LogFields} does not have. */
export interface Logger {
  readonly debug: LogLine;
  readonly info: LogLine;
  readonly warn: LogLine;
  readonly error: LogLine;
  readonly fatal: LogLine;
  /** A logger whose lines all carry these fields. */
  child(fields: LogFields): Logger;
}

/** How much is logged, and where to. */
export interface LoggerOptions {
  /** pino level; `info` in production. */
  readonly level: string;
  /** File descriptor; default 1, 2 (stderr) where stdout belongs to a protocol. */
  readonly fd?: number;
  readonly program: string;
}

/** A JSON-lines logger, written synchronously so that the last line before a crash is not lost. */
export function createLogger({ level, fd = 1, program }: LoggerOptions): Logger {
  return pino(
    { level, base: { program }, timestamp: pino.stdTimeFunctions.isoTime },
    destination({ dest: fd, sync: true }),
  );
}

/** A logger that writes nothing, for tests. */
export const silentLogger: Logger = pino({ level: "silent" });
