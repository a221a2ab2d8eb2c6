import { Failure, type FailureOptions } from "../../failure/failure.ts";

/** A failure that an IPAM plugin answered with; the runtime hears the plugin's own code. */
export class IpamError extends Failure {
  /** Code of the plugin's error object; undefined where it printed none. */
  readonly cniCode: number | undefined;

  constructor(options: FailureOptions, cniCode?: number) {
    super(options);
    this.cniCode = cniCode;
  }
}
