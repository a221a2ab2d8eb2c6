import type { ServerWritableStream } from "@grpc/grpc-js";
import type { DeviceSource, PluginDevice } from "./pool-devices.ts";

interface WireDevice {
  readonly ID: string;
  readonly health: "Healthy" | "Unhealthy";
  readonly topology: { readonly nodes: readonly { readonly ID: number }[] } | null;
}

/** One open ListAndWatch call. */
export type DeviceStream = ServerWritableStream<object, { readonly devices: readonly WireDevice[] }>;

/**
 * The open ListAndWatch streams: one in steady state, for a moment two after another registration. Each gets the
 * list at once, and again when there is another one.
 */
export class DeviceStreams {
  readonly #devices: Pick<DeviceSource, "current">;
  readonly #onLost: () => void;
  readonly #updates = new Map<DeviceStream, () => void>();

  /** @param onLost called when the last open stream has ended, and not by {@link DeviceStreams.endAll} */
  constructor(devices: Pick<DeviceSource, "current">, onLost: () => void) {
    this.#devices = devices;
    this.#onLost = onLost;
  }

  /** How many streams are open. */
  get open(): number {
    return this.#updates.size;
  }

  /** Serves one stream until its caller disconnects. */
  serve(stream: DeviceStream): void {
    let sent: readonly PluginDevice[] | undefined;
    let congested = false;
    const update = () => {
      // A slow reader gets the newest list once it has read, not every list in between.
      if (congested) return;
      const current = this.#devices.current();
      if (current === sent) return;
      sent = current;
      congested = !stream.write({ devices: current.map(toWire) });
    };
    stream.on("drain", () => {
      congested = false;
      update();
    });
    const ended = () => {
      if (this.#updates.delete(stream) && this.#updates.size === 0) this.#onLost();
    };
    for (const event of ["cancelled", "error", "close"]) stream.on(event, ended);
    this.#updates.set(stream, update);
    if (stream.cancelled) ended();
    else update();
  }

  /** Sends the list again where it changed. */
  refresh(): void {
    for (const update of this.#updates.values()) update();
  }

  /** Ends all streams from our side. For kubelet the resource's devices are unhealthy then. */
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
