import { Failure } from "../../failure/failure.ts";
import { orAborted, whenAborted } from "../../sync/deadlines.ts";
import { connectOpenflow, type OpenflowConnection, type OpenflowConnectionOptions } from "./connection.ts";

/** One bridge, reached over one connection that is made when needed and made anew when lost. */
export interface OpenflowClient {
  /**
   * The connection, the same for all callers as long as it lives.
   * @throws Failure as {@link connectOpenflow}
   */
  connection(signal: AbortSignal): Promise<OpenflowConnection>;
  /** Ends the connection; what is under way fails. */
  close(): void;
}

/** Opens nothing yet: the first caller connects. */
export function createOpenflowClient(options: OpenflowConnectionOptions): OpenflowClient {
  const closing = new AbortController();
  let current: Promise<OpenflowConnection> | undefined;
  // No caller's signal ends the attempt: its failure would be the others' too.
  const dial = () => {
    const dialled = connectOpenflow(options, closing.signal);
    const forget = () => {
      if (current === dialled) current = undefined;
    };
    // Lost already where what came behind the bridge's greeting was unsound.
    dialled.then(({ lost }) => whenAborted(lost, forget), forget);
    return dialled;
  };
  return {
    connection: (signal) => {
      if (closing.signal.aborted) return Promise.reject(closing.signal.reason);
      current ??= dial();
      return orAborted(current, signal, () => tooLate(options.path, signal));
    },
    close: () => {
      closing.abort(
        new Failure({ code: "dataplane-unavailable", what: "the connection to the bridge was closed by us" }),
      );
      current?.then(
        (connection) => connection.close(),
        () => undefined,
      );
    },
  };
}

function tooLate(path: string, signal: AbortSignal): Failure {
  if (signal.reason instanceof Failure) return signal.reason;
  return new Failure({
    code: "dataplane-timeout",
    what: "the bridge took the connection and did not say hello in time",
    where: path,
    fix: "check that ovs-vswitchd is not stopped",
    cause: signal.reason,
  });
}
