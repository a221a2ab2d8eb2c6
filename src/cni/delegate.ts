/** A CNI plugin that the shim is to run in the runtime's environment; the daemon has no such plugins itself. */
export interface DelegateCall {
  /** File name of the executable, which is looked for in the CNI_PATH of the shim's own request. */
  readonly type: string;
  /** Takes the place of all of the shim's CNI_ variables. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: Uint8Array;
  /**
   * Milliseconds that it may take, where that is less than any plugin may. The shim hears of it by the answer, so
   * after one that took longer no other can be run.
   */
  readonly limitMs?: number;
}

/** How the plugin ended: 127 without output means that it was not found, 128 + n that signal n ended it. */
export interface DelegateReply {
  readonly exitCode: number;
  readonly stdout: string;
}

/**
 * Runs a plugin, one at a time.
 * @throws Failure `ipam-interrupted` when nobody knows how far the plugin came, `ipam-failed` when its limit is over
 */
export type Delegate = (call: DelegateCall) => Promise<DelegateReply>;
