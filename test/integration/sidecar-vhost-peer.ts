import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

/** Requests that QEMU sends before the guest runs, and that want an answer (vhost-user specification). */
const GET_FEATURES = 1;
const SET_LOG_BASE = 6;
const GET_VRING_BASE = 11;
const GET_PROTOCOL_FEATURES = 15;
const GET_QUEUE_NUM = 17;
const GET_CONFIG = 24;
const GET_MAX_MEM_SLOTS = 36;

const VERSION_1 = 1n << 32n;
const PROTOCOL_FEATURES = 1n << 30n;
const IOMMU_PLATFORM = 1n << 33n;
const MULTIQUEUE = 1n << 22n;
const VIRTIO_NET_MTU = 1n << 3n;
const RING_PACKED = 1n << 34n;
/** Without them QEMU lets no VM migrate: the backend couldn't say what it wrote into the guest's memory. */
const LOG_ALL = 1n << 26n;
const PROTOCOL_LOG_SHMFD = 1n << 1n;
const PROTOCOL_MQ = 1n << 0n;
const PROTOCOL_REPLY_ACK = 1n << 3n;
const PROTOCOL_MTU = 1n << 4n;
const PROTOCOL_SLAVE_REQ = 1n << 5n;

const HEADER_BYTES = 12;
const FLAG_REPLY = 0x4;
const FLAG_NEED_REPLY = 0x8;

/**
 * The switch's side of a vhost-user socket, as far as QEMU needs it to start: it connects as soon as QEMU listens and
 * answers the questions that QEMU asks before the guest runs. It moves no packet.
 */
export class VhostUserPeer {
  readonly #path: string;
  readonly #ending = new AbortController();
  #socket: Socket | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** Tries until QEMU listens; ends when {@link close} is called. */
  async connect(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted && this.#socket === undefined) {
      this.#socket = await tryConnect(this.#path);
      if (this.#socket === undefined) await delay(20, undefined, { signal }).catch(() => undefined);
    }
    const socket = this.#socket;
    if (socket === undefined) return;
    let pending = Buffer.alloc(0);
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => {
      pending = Buffer.concat([pending, chunk]);
      while (pending.length >= HEADER_BYTES) {
        const size = pending.readUInt32LE(8);
        if (pending.length < HEADER_BYTES + size) return;
        answer(socket, pending.readUInt32LE(0), pending.readUInt32LE(4), size);
        pending = pending.subarray(HEADER_BYTES + size);
      }
    });
  }

  close(): void {
    this.#ending.abort();
    this.#socket?.destroy();
  }
}

function answer(socket: Socket, request: number, flags: number, size: number): void {
  const values: Readonly<Record<number, bigint>> = {
    [GET_FEATURES]:
      VERSION_1 | PROTOCOL_FEATURES | IOMMU_PLATFORM | MULTIQUEUE | VIRTIO_NET_MTU | LOG_ALL | RING_PACKED,
    [GET_PROTOCOL_FEATURES]:
      PROTOCOL_MQ | PROTOCOL_REPLY_ACK | PROTOCOL_MTU | PROTOCOL_SLAVE_REQ | PROTOCOL_LOG_SHMFD,
    [GET_QUEUE_NUM]: 256n,
    [GET_VRING_BASE]: 0n,
    [SET_LOG_BASE]: 0n,
    [GET_MAX_MEM_SLOTS]: 32n,
  };
  if (request === GET_CONFIG) {
    reply(socket, request, Buffer.alloc(size));
    return;
  }
  const value = values[request] ?? ((flags & FLAG_NEED_REPLY) === 0 ? undefined : 0n);
  if (value === undefined) return;
  const body = Buffer.alloc(8);
  body.writeBigUInt64LE(value);
  reply(socket, request, body);
}

function reply(socket: Socket, request: number, body: Buffer): void {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt32LE(request, 0);
  header.writeUInt32LE(1 | FLAG_REPLY, 4);
  header.writeUInt32LE(body.length, 8);
  socket.write(Buffer.concat([header, body]));
}

function tryConnect(path: string): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => resolve(socket));
    socket.once("error", () => resolve(undefined));
  });
}
