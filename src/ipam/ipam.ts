import { Failure, type FailureOptions, toFailure } from "../failure/failure.ts";

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
