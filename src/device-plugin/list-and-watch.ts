import type { ServerWritableStream } from "@grpc/grpc-js";
import type { DeviceSource, PluginDevice } from "./pool-devices.ts";

interface WireDevice {
  readonly ID: string;
  readonly health: "Healthy" | "Unhealthy";
  readonly topology: { readonly nodes: readonly { readonly ID: number }[] } | null;
}

/** One open ListAndWatch call. */
export type DeviceStream = ServerWritableStream<object, { readonly devices: readonly WireDevice[] }>;

/** What the streams send, and what is called when all are gone. */
export interface DeviceStreamsOptions {
  readonly devices: Pick<DeviceSource, "current">;
  /** The last open stream ended, and not by {@link DeviceStreams.endAll}. */
  readonly onLost: () => void;
}

/**
 * The open ListAndWatch streams: one in steady state, for a moment two after another registration. Each gets the
 * list at once, and again when it differs from what that stream was sent last.
 */
export class DeviceStreams {
  readonly #options: DeviceStreamsOptions;
  readonly #updates = new Map<DeviceStream, () => void>();

  constructor(options: DeviceStreamsOptions) {
    this.#options = options;
  }

  /** How many streams are open. */
  get open(): number {
    return this.#updates.size;
  }

  /** Serves one stream until its caller goes away. */
  serve(stream: DeviceStream): void {
    let lastSeen: readonly PluginDevice[] | undefined;
    let lastSent: string | undefined;
    let congested = false;
    const update = () => {
      // A slow reader gets the newest list once it has read, not every list in between.
      if (congested) return;
      const current = this.#options.devices.current();
      if (current === lastSeen) return;
      lastSeen = current;
      const devices = current.map(toWire);
      const text = JSON.stringify(devices);
      if (text === lastSent) return;
      lastSent = text;
      congested = !stream.write({ devices });
    };
    stream.on("drain", () => {
      congested = false;
      update();
    });
    const ended = () => {
      if (this.#updates.delete(stream) && this.#updates.size === 0) this.#options.onLost();
    };
    stream.on("cancelled", ended);
    stream.on("error", ended);
    stream.on("close", ended);
    this.#updates.set(stream, update);
    if (stream.cancelled) ended();
    else update();
  }

  /** Sends the list again where it changed. */
  refresh(): void {
    for (const update of this.#updates.values()) update();
  }

  /** Ends all streams from our side. kubelet then takes the resource's devices for unhealthy. */
  endAll(): void {
    const streams = [...this.#updates.keys()];
    this.#updates.clear();
    for (const stream of streams) stream.end();
  }
}

function toWire(device: PluginDevice): WireDevice {
  return {
    ID: device.id,
    health: device.healthy ? "Healthy" : "Unhealthy",
    topology: device.numaNodes.length === 0 ? null : { nodes: device.numaNodes.map((ID) => ({ ID })) },
  };
}
