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
