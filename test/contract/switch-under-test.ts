import { join } from "node:path";
import type { PortSettings } from "../../src/config/port-settings.ts";
import type { Dataplane } from "../../src/dataplane/dataplane.ts";
import type { PortRequest } from "../../src/dataplane/port.ts";
import { Failure } from "../../src/failure/failure.ts";

/** A running switch, and the few things that the suite does behind the back of the {@link Dataplane}. */
export interface SwitchUnderTest {
  /** Two bridges that can take vhost-user ports. */
  readonly bridges: readonly [string, string];
  /** A short directory for sockets. */
  readonly socketDirectory: string;
  /** A fresh dataplane, by default for the node `node-a`. */
  open(node?: string): Dataplane;
  /** Makes a vhost-user port as another program would: without our mark. */
  makeForeignPort(name: string, socketPath: string): Promise<void>;
  /** Names of all ports in the switch but the bridges' own, ours or not, sorted. */
  portNames(): Promise<readonly string[]>;
  /** Settings that this kind of switch does not have. */
  readonly lacks: readonly (keyof PortSettings)[];
  /** VLAN modes that it does not have, though it has others. */
  readonly lacksVlanModes?: readonly NonNullable<PortSettings["vlan"]>["mode"][];
  /** Whether the running release offers it; absent where all releases do. */
  offers?(offer: "routed ports"): Promise<boolean>;
  /** Whether switch and configuration are one process, which forgets everything when it ends. */
  readonly forgets?: boolean;
  /** Names of what the switch keeps for ports of ours beside them, such as limits. */
  belongings(): Promise<readonly string[]>;
  /** Removes a port as another program would, which leaves what belongs to it. */
  removeBehindOurBack(port: string): Promise<void>;
  /** Removes every port but the bridges' own, bridges that a test made, and repairs what a test broke. */
  reset(): Promise<void>;
  /** Kills what applies changes; the configuration can still be written where the switch has one. */
  killSwitch(): Promise<void>;
  startSwitch(): Promise<void>;
  /** Kills what {@link Dataplane} talks to, and starts it again. */
  killControl(): Promise<void>;
  startControl(): Promise<void>;
  close(): Promise<void>;
}

/** Fires after thirty seconds, which is far more than a healthy switch on a busy machine needs. */
export const soon = () => AbortSignal.timeout(30_000);

/** A request for the container `c1`, with what a test wants otherwise. */
export function portRequest(
  rig: Pick<SwitchUnderTest, "bridges" | "socketDirectory">,
  changes: Partial<Omit<PortRequest, "owner">> & { readonly owner?: Partial<PortRequest["owner"]> } = {},
): PortRequest {
  const name = changes.name ?? "vhu0123456789ab";
  return {
    bridge: rig.bridges[0],
    socketPath: join(rig.socketDirectory, `${name}.sock`),
    mtu: 1500,
    settings: {},
    ...changes,
    name,
    owner: {
      node: "node-a",
      podNamespace: "shop",
      podName: "virt-launcher-web-x7k2p",
      podUid: "0b5c8a52-5a3f-4f0e-9a52-1d0a3bb1c001",
      containerId: "c1",
      interfaceName: "pod37a8eec1ce1",
      network: "fast",
      mac: "02:00:00:00:00:01",
      allocationId: "0123456789abcdef",
      ...changes.owner,
    },
  };
}

/** Resolves with the Failure itself, so that a test can check its code. */
export async function failureOf(promise: Promise<unknown>): Promise<Failure> {
  const outcome = await promise.then(
    (value) => ({ value }),
    (thrown: unknown) => ({ thrown }),
  );
  if ("thrown" in outcome && outcome.thrown instanceof Failure) return outcome.thrown;
  throw new Error(`a Failure was expected, not ${JSON.stringify(outcome)}`);
}
