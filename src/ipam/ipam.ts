import { Failure, type FailureOptions, toFailure } from "../failure/failure.ts";
import type { CniVersion } from "../names/cni-version.ts";
import type { Addressing } from "../records/port-record.ts";

/** What an IPAM is asked with: the CNI request's variables and complete network configuration. */
export interface IpamRequest {
  /** The CNI_ variables; CNI_COMMAND is the IPAM's own to set. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: Uint8Array;
}

/** A CNI plugin that the shim runs in the runtime's environment; the daemon's image has no such plugins. */
export interface DelegateCall {
  /** File name of the executable, looked for in the CNI_PATH of the shim's own request. */
  readonly type: string;
  /** Takes the place of all of the shim's CNI_ variables. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: Uint8Array;
  /** Limit in milliseconds, below that of any plugin. After a call that exceeded it the shim can run no other. */
  readonly limitMs?: number;
}

/** How the plugin ended: 127 without output means that it was not found, 128 + n that signal n ended it. */
export interface DelegateReply {
  readonly exitCode: number;
  readonly stdout: string;
}

/**
 * Runs a plugin, one at a time.
 * @throws Failure `ipam-interrupted` when it is unknown how far the plugin came, `ipam-failed` after `limitMs`
 */
export type Delegate = (call: DelegateCall) => Promise<DelegateReply>;

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
