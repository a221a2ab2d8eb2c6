import { type ListStream, ListStreams } from "../kubelet/list-streams.ts";
import type { DeviceSource, PluginDevice } from "./pool-devices.ts";

interface WireDevice {
  readonly ID: string;
  readonly health: "Healthy" | "Unhealthy";
  readonly topology: { readonly nodes: readonly { readonly ID: number }[] } | null;
}

interface DeviceList {
  readonly devices: readonly WireDevice[];
}

/** One open ListAndWatch call. */
export type DeviceStream = ListStream<DeviceList>;

/** The open ListAndWatch streams; for kubelet the resource's devices are unhealthy when they have ended. */
export type DeviceStreams = ListStreams<readonly PluginDevice[], DeviceList>;

/** @param onLost see {@link ListStreams} */
export function deviceStreams(devices: Pick<DeviceSource, "current">, onLost: () => void): DeviceStreams {
  const toMessage = (list: readonly PluginDevice[]) => ({ devices: list.map(toWire) });
  return new ListStreams({ current: () => devices.current(), toMessage }, onLost);
}

function toWire(device: PluginDevice): WireDevice {
  return {
    ID: device.id,
    health: device.healthy ? "Healthy" : "Unhealthy",
    topology: device.numaNodes.length === 0 ? null : { nodes: device.numaNodes.map((ID) => ({ ID })) },
  };
}
