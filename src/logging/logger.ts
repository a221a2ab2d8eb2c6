import { destination, pino } from "pino";
import { toFailure } from "../failure/failure.ts";
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

/** How much is logged, where to, and what every line has. */
export interface LoggerOptions {
  /** pino level; `info` in production. */
  readonly level: string;
  /** File descriptor; default 1, 2 (stderr) where stdout belongs to a protocol. */
  readonly fd?: number;
  readonly program: string;
  /** Name of the node, where the program knows it. */
  readonly node?: string;
}

/** A JSON-lines logger, written synchronously so that the last line before a crash is not lost. */
export function createLogger({ level, fd = 1, program, node }: LoggerOptions): Logger {
  return pino(
    {
      level,
      base: { program, ...(node === undefined ? {} : { node }) },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorFields },
    },
    destination({ dest: fd, sync: true }),
  );
}

/** Code and text of an error; the stack, with those of its causes, only of what is a defect. */
function errorFields(thrown: unknown): object {
  const failure = toFailure(thrown);
  const { code, message } = failure;
  return { code, message, ...(code === "internal" ? { stack: pino.stdSerializers.err(failure).stack } : {}) };
}

/** A logger that writes nothing, for tests. */
export const silentLogger: Logger = pino({ level: "silent" });
