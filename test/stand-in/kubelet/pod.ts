/** A container of a pod that is to be admitted. */
export interface ContainerRequest {
  readonly name: string;
  /** Extended resources, limits equal to requests. A name that no plugin ever registered refuses the pod. */
  readonly resources?: Readonly<Record<string, number>>;
}

/** An init container; a restartable one (a sidecar) keeps its devices, a plain one leaves them to the next. */
export interface InitContainerRequest extends ContainerRequest {
  readonly restartable?: boolean;
}

/** A pod as the API server hands it to kubelet. */
export interface PodRequest {
  readonly namespace: string;
  readonly name: string;
  /** Default: a fresh one. */
  readonly uid?: string;
  readonly initContainers?: readonly InitContainerRequest[];
  readonly containers: readonly ContainerRequest[];
}

/** A mount in the container's CRI configuration. */
export interface ContainerMount {
  readonly containerPath: string;
  readonly hostPath: string;
  readonly readOnly: boolean;
}

/** What a container gets from its device plugins. */
export interface AdmittedContainer {
  readonly name: string;
  /** By resource, in the order in which kubelet named them to the plugin. */
  readonly deviceIds: Readonly<Record<string, readonly string[]>>;
  readonly envs: Readonly<Record<string, string>>;
  readonly mounts: readonly ContainerMount[];
  readonly annotations: Readonly<Record<string, string>>;
}

/** How admission ended. */
export type Admission =
  | { readonly phase: "Running"; readonly uid: string; readonly containers: readonly AdmittedContainer[] }
  | {
      readonly phase: "Failed";
      readonly uid: string;
      readonly reason: "UnexpectedAdmissionError" | "TopologyAffinityError";
      readonly message: string;
    };
