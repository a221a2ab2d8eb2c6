import { Failure } from "../../failure/failure.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import { orAborted } from "../../sync/deadlines.ts";
import { readView, type View } from "./view.ts";

/** Time for one reading; a VPP that swallows a request must not keep all later ones waiting. */
const READ_MS = 5_000;

/**
 * Readings of VPP's configuration, shared by calls that come at the same time: after a restart of VPP a hundred
 * ports ask at once, and each reading grows with the ports. Nobody is given one that began before he asked.
 */
export class SharedViews {
  readonly #running = new WeakMap<VppConnection, Promise<View>>();
  readonly #next = new WeakMap<VppConnection, Promise<View>>();

  /** @throws Failure as {@link readView}, dataplane-timeout when the signal fires */
  read(connection: VppConnection, signal: AbortSignal): Promise<View> {
    const view = this.#next.get(connection) ?? this.#after(this.#running.get(connection), connection);
    return orAborted(view, signal, () => {
      if (signal.reason instanceof Failure) return signal.reason;
      return new Failure({
        code: "dataplane-timeout",
        what: "VPP did not tell its configuration in time",
        fix: "check that VPP's main thread is not stuck",
        cause: signal.reason,
      });
    });
  }

  /** The reading that begins when the running one is over. */
  #after(running: Promise<View> | undefined, connection: VppConnection): Promise<View> {
    const begin = () => {
      this.#next.delete(connection);
      this.#running.set(connection, view);
      return readView(connection, AbortSignal.timeout(READ_MS));
    };
    const view: Promise<View> = Promise.resolve(running).then(begin, begin);
    this.#next.set(connection, view);
    return view;
  }
}
