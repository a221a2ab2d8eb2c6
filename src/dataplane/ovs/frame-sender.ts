import type { Logger } from "../../logging/logger.ts";
import { output, PORT, packetOut } from "../../protocols/openflow/action.ts";
import {
  bridgeSocket,
  createOpenflowClient,
  type OpenflowClient,
} from "../../protocols/openflow/connection.ts";

/** Connections to bridges over which frames are handed to them. */
export class FrameSender {
  readonly #runDirectory: string;
  readonly #logger: Logger;
  readonly #bridges = new Map<string, OpenflowClient>();

  /** @param runDirectory of the bridges' OpenFlow sockets */
  constructor(runDirectory: string, logger: Logger) {
    this.#runDirectory = runDirectory;
    this.#logger = logger;
  }

  /**
   * Makes the connection to a bridge before there is a frame, for which every millisecond counts. Never rejects:
   * whoever has a frame is told what is wrong.
   */
  async prepare(bridge: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#client(bridge).connection(signal);
    } catch {
      // A bridge that speaks no OpenFlow carries ports all the same.
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

  /**
   * Asks the bridge for nothing and waits until it has done that: its switch's main thread turns once.
   * @throws Failure as {@link send}
   */
  async turn(bridge: string, signal: AbortSignal): Promise<void> {
    const connection = await this.#client(bridge).connection(signal);
    await connection.exchange([], signal);
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
