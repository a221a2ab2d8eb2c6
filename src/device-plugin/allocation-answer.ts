/** One directory or file that the container gets. */
export interface AnswerMount {
  readonly containerPath: string;
  /** Must exist when the answer is given: kubelet does not create it. */
  readonly hostPath: string;
  readonly readOnly: boolean;
}

/** What one container gets for all its devices of one resource. */
export interface AllocationAnswer {
  /** Environment; the pod's own entries of the same name win. */
  readonly envs: Readonly<Record<string, string>>;
  readonly mounts: readonly AnswerMount[];
  /** For the container runtime only: they reach neither the Pod object nor Multus. */
  readonly annotations: Readonly<Record<string, string>>;
}

/**
 * Answers Allocate for one container, with all its devices of the resource at once.
 * @param signal fires when nobody waits for the answer any more; what was made is to be taken back then
 */
export type Allocate = (deviceIds: readonly string[], signal: AbortSignal) => Promise<AllocationAnswer>;
