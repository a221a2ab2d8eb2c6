import { Failure, type FailureOptions, toFailure } from "../failure/failure.ts";
import type { CniVersion } from "../names/cni-version.ts";
import type { Addressing } from "../records/port-record.ts";

/** What an IPAM is asked with: the CNI request's variables and complete network configuration. */
export interface IpamRequest {
  /** The CNI_ variables; CNI_COMMAND is the IPAM's own to set. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: Uint8Array;
}

/**
 * Manages the addresses of a network's interfaces (CNI spec 1.1.0, section 4, "Delegated Plugins"). One interface of one
 * sandbox gets addresses once; a DEL may be repeated. Every call rejects with a Failure, among them {@link IpamError}.
 */
export interface Ipam {
  /** Gives an interface addresses, in whichever of our CNI versions the IPAM answers. */
  add(request: IpamRequest, cniVersion: CniVersion): Promise<Addressing>;
  /** Releases the addresses of an interface. */
  del(request: IpamRequest): Promise<void>;
  /** Checks that the addresses of `prevResult` are still the interface's. */
  check(request: IpamRequest): Promise<void>;
  /** Releases what is not in the request's list of valid attachments. */
  gc(request: IpamRequest): Promise<void>;
  /** Checks that an `add` could succeed now. */
  status(request: IpamRequest): Promise<void>;
}

/** A failure that an IPAM answered with; the runtime gets the IPAM's own code. */
export class IpamError extends Failure {
  /** Code of the IPAM's error object; undefined where it printed none. */
  readonly cniCode: number | undefined;

  constructor(options: FailureOptions, cniCode?: number) {
    super(options);
    this.cniCode = cniCode;
  }
}

/** CNI's code for a version that a plugin does not speak, which it checks before anything else. */
const INCOMPATIBLE_VERSION = 1;

/** Whether a failure means that the IPAM did nothing, so that it holds no addresses. */
export function didNothing(thrown: unknown): boolean {
  if (toFailure(thrown).code === "ipam-missing") return true;
  return thrown instanceof IpamError && thrown.cniCode === INCOMPATIBLE_VERSION;
}

const PLUGIN_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}$/;

/** Whether a text can be `ipam.type`: the file name of an executable, not a path. */
export function isPluginName(text: string): boolean {
  return PLUGIN_NAME.test(text);
}
