import type { Logger } from "../../../logging/logger.ts";
import { output, PORT, packetOut } from "../../../protocols/openflow/action.ts";
import {
  bridgeSocket,
  createOpenflowClient,
  type OpenflowClient,
} from "../../../protocols/openflow/connection.ts";

/** OpenFlow connections to bridges, for announcement frames. They are made when first needed. */
export class BridgeConnections {
  readonly #runDirectory: string;
  readonly #logger: Logger;
  readonly #bridges = new Map<string, OpenflowClient>();

  /** @param runDirectory of the bridges' OpenFlow sockets */
  constructor(runDirectory: string, logger: Logger) {
    this.#logger = logger;
    this.#runDirectory = runDirectory;
  }

  /** Connects before there is a frame, for which every millisecond counts. Never rejects. */
  async prepare(bridge: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#client(bridge).connection(signal);
    } catch {
      // A bridge that speaks no OpenFlow carries ports all the same; who sends a frame gets the error.
    }
  }

  /**
   * Has the bridge forward frames as if they had come in by this port.
   * @throws Failure path-too-long, dataplane-unavailable, dataplane-timeout, dataplane-misconfigured, dataplane-protocol
   */
  async send(
    bridge: string,
    inPort: number,
    frames: readonly Uint8Array[],
    signal: AbortSignal,
  ): Promise<void> {
    const connection = await this.#client(bridge).connection(signal);
    const actions = [output(PORT.normal)];
    const requests = frames.map((frame) => packetOut({ inPort, actions, frame: Buffer.from(frame) }));
    await connection.exchange(requests, signal);
  }

  /** Exchanges a barrier with the bridge, which wakes the switch's main thread. @throws Failure as {@link send} */
  wake(bridge: string, signal: AbortSignal): Promise<void> {
    return this.send(bridge, 0, [], signal);
  }

  close(): void {
    for (const client of this.#bridges.values()) client.close();
  }

  #client(bridge: string): OpenflowClient {
    const known = this.#bridges.get(bridge);
    if (known !== undefined) return known;
    const client = createOpenflowClient({
      path: bridgeSocket(this.#runDirectory, bridge),
      logger: this.#logger,
    });
    this.#bridges.set(bridge, client);
    return client;
  }
}
