// What the node offers to claims: devices of ResourceSlices, from pools and their state.
import type { PoolConfig } from "../config/schema.ts";
import type { Uplink } from "../dataplane/uplink.ts";
import { DRA_DRIVER } from "./dra-context.ts";

/** A pool with what is known of it now. */
export interface OfferedPool {
  readonly config: Pick<PoolConfig, "name" | "resource" | "claims" | "dataplane">;
  /** Whether its switch serves ports. */
  readonly healthy: boolean;
  readonly uplink: Uplink;
  /** How many ports claims may have. */
  readonly ports: number;
}

/** An attribute's value (resource.k8s.io/v1, DeviceAttribute). */
export type Attribute = { readonly string: string } | { readonly int: number } | { readonly bool: boolean };

/** A device of a slice (resource.k8s.io/v1, Device). */
export interface SliceDevice {
  readonly name: string;
  readonly attributes: Readonly<Record<string, Attribute>>;
  readonly allowMultipleAllocations?: true;
  readonly capacity?: Readonly<Record<string, object>>;
}

const MAX_ATTRIBUTE = 64;
/** Name of the capacity that requests take bandwidth of, in bits a second. */
export const BANDWIDTH = "bandwidth";

/**
 * Names of a pool's devices: the pool itself, which claims share, or one for each socket where the cluster cannot share
 * devices (feature gate DRAConsumableCapacity, KEP-5075).
 */
function deviceNames({ config: { name }, ports }: OfferedPool, isShared: boolean): readonly string[] {
  if (isShared) return ports > 0 ? [name] : [];
  return Array.from({ length: ports }, (_, index) => `${name}--${index}`);
}

/** The devices that the scheduler may give to claims now: none of a pool whose switch is away. */
export function planSliceDevices(pools: readonly OfferedPool[], isShared: boolean): readonly SliceDevice[] {
  return pools
    .filter(({ healthy }) => healthy)
    .flatMap((pool) =>
      deviceNames(pool, isShared).map((name) => ({
        name,
        attributes: attributesOf(pool, name),
        ...(isShared
          ? {
              allowMultipleAllocations: true as const,
              capacity: sharedCapacity({ ports: pool.ports }, pool.config.claims?.bandwidth),
            }
          : {}),
      })),
    );
}

/** The pool of a device that {@link deviceNames} named, of those that have ports for claims. */
export function poolOfDevice<Pool extends { readonly config: Pick<PoolConfig, "claims"> }>(
  pools: ReadonlyMap<string, Pool>,
  device: string,
): Pool | undefined {
  const pool = pools.get(device.replace(/--\d+$/, ""));
  return pool?.config.claims === undefined ? undefined : pool;
}

/** The health of all devices, also of those that are left out of slices: claims may have them. */
export function deviceHealth(node: string, pools: readonly OfferedPool[], isShared: boolean) {
  return pools.flatMap((pool) => {
    const { healthy } = pool;
    const message = healthy ? undefined : `the switch of pool ${pool.config.name} does not serve ports`;
    return deviceNames(pool, isShared).map((device) => ({ pool: node, device, healthy, message }));
  });
}

function attributesOf({ config, uplink }: OfferedPool, device: string): SliceDevice["attributes"] {
  const { name, resource, dataplane } = config;
  const texts = {
    ...{ pool: name, bridge: dataplane.bridge, switch: dataplane.type },
    // Multus after 4.3.0 hands the device of this id to networks that name this resource.
    ...{ "k8s.cni.cncf.io/resourceName": resource, "k8s.cni.cncf.io/deviceID": device },
    // By these a claim asks for a GPU or another NIC beside the switch's.
    "resource.kubernetes.io/pciBusID": uplink.pciAddress,
    "resource.kubernetes.io/pcieRoot": uplink.pcieRoot,
  };
  const attributes: Record<string, Attribute> = {};
  for (const [key, string] of Object.entries(texts))
    if (string !== undefined && string.length <= MAX_ATTRIBUTE) attributes[key] = { string };
  const { numaNode, mtu } = uplink;
  for (const [key, int] of Object.entries({ numaNode, mtu }))
    if (int !== undefined) attributes[key] = { int };
  return attributes;
}

/**
 * What claims of a shared device take.
 * @param counts of each a result takes one
 * @param bandwidth bits a second; a result that does not ask for any takes none
 */
export function sharedCapacity(
  counts: Readonly<Record<string, number>>,
  bandwidth: number | undefined,
): NonNullable<SliceDevice["capacity"]> {
  const one = (count: number) => ({
    value: String(count),
    requestPolicy: { default: "1", validValues: ["1"] },
  });
  return {
    ...Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, one(count)])),
    ...(bandwidth === undefined
      ? {}
      : {
          [BANDWIDTH]: {
            value: String(bandwidth),
            requestPolicy: { default: "0", validRange: { min: "0" } },
          },
        }),
  };
}

/** The part of a ResourceSlice that a driver writes (resource.k8s.io/v1, ResourceSliceSpec). */
export interface SliceSpec {
  readonly driver: string;
  readonly nodeName: string;
  readonly pool: { readonly name: string; readonly generation: number; readonly resourceSliceCount: number };
  readonly devices?: readonly SliceDevice[];
}

/** Devices that one slice can have. */
export const DEVICES_PER_SLICE = 128;

/** The specs of a node's slices: at least one, for an empty pool is not a missing one. */
export function sliceSpecs(
  node: string,
  devices: readonly SliceDevice[],
  generation: number,
  driver: string = DRA_DRIVER,
): readonly SliceSpec[] {
  const resourceSliceCount = Math.max(1, Math.ceil(devices.length / DEVICES_PER_SLICE));
  return Array.from({ length: resourceSliceCount }, (_, index) => {
    const own = devices.slice(index * DEVICES_PER_SLICE, (index + 1) * DEVICES_PER_SLICE);
    return {
      ...{ driver, nodeName: node, pool: { name: node, generation, resourceSliceCount } },
      ...(own.length === 0 ? {} : { devices: own }),
    };
  });
}
