// What the parts of the DRA driver work with, and what they say to each other.
import type { AllocationPlaces } from "../allocation/allocation.ts";
import type { NodeContext } from "../attachment/node-context.ts";
import type { Failure } from "../failure/failure.ts";
import type { Delegate } from "../ipam/ipam.ts";
import type { KubeApi } from "../kube-api/client.ts";
import type { Logger } from "../logging/logger.ts";
import type { Pool } from "../pools/pools.ts";
import type { PortRecord } from "../records/port-record.ts";
import type { Clock } from "../sync/clock.ts";
import type { KeyedMutex } from "../sync/keyed-mutex.ts";

/** Name of the driver in ResourceSlices, claims, kubelet's registration and CDI kinds. */
export const DRA_DRIVER = "vhostuser.kube-vhostuser.io";

/** `type` of our networks in a CNI configuration. */
export const PLUGIN_TYPE = "kube-vhostuser";

/** What claims are prepared and unprepared with. */
export interface DraContext {
  readonly node: NodeContext;
  readonly places: AllocationPlaces;
  /** Those of CNI and the reconciler. */
  readonly locks: KeyedMutex;
  readonly api: Pick<KubeApi, "get">;
  /** The configured pool behind a device of our ResourceSlices; undefined where no pool has such a device. */
  readonly poolOf: (device: string) => Pool | undefined;
  /** Writes the status of a claim in the background. */
  readonly report: (report: ClaimReport) => void;
  /** Where CDI files go. */
  readonly cdiDirectory: string;
  /** The driver's directory below kubelet's `plugins`: its socket, and the metadata files of claims. */
  readonly pluginDirectory: string;
  /** Runs IPAM plugins; absent where none are configured. */
  readonly ipam?: Delegate | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** What the status of a claim is to say of its devices of this driver: all of them, at each report. */
export interface ClaimReport {
  readonly claim: { readonly namespace: string; readonly name: string; readonly uid: string };
  readonly devices: readonly DeviceReport[];
}

/** One result of a claim's allocation (resource.k8s.io/v1, AllocatedDeviceStatus). */
export interface DeviceReport {
  /** Pool of ResourceSlices. */
  readonly pool: string;
  readonly device: string;
  readonly shareID?: string | undefined;
  /** Why it is not ready; absent where it is. */
  readonly problem?: Failure | undefined;
  /** Conditions that are true, beside `Ready`. */
  readonly conditions?: readonly {
    readonly type: string;
    readonly problem: Failure;
    /** Milliseconds since the epoch. */
    readonly since: number;
  }[];
  readonly port?: PortRecord | undefined;
  /** The port's name in the status; default that of its record. */
  readonly interfaceName?: string | undefined;
  /** The socket as containers of the claim see it. */
  readonly socketPath?: string | undefined;
  /** What another driver than that of ports has made, in the words of the API. */
  readonly made?:
    | {
        /** Milliseconds since the epoch. */
        readonly since: number;
        readonly data?: object;
        readonly networkData?: object;
      }
    | undefined;
}
