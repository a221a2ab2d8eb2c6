import { unlinkSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";

/** VPP tries to connect when the interface is made, and every three seconds after that. */
const RETRY_MS = 3000;

/**
 * VPP's end of a vhost-user socket. Like VPP it waits for the guest's side to begin. It does not speak
 * vhost-user.
 */
export class VhostSocket {
  readonly #path: string;
  #socket: Socket | undefined;
  #server: Server | undefined;
  #retry: NodeJS.Timeout | undefined;
  #closed = false;
  /** As sock_errno of sw_interface_vhost_user_details: what the last try to connect failed with. */
  errno = 0;

  constructor(path: string, isServer: boolean) {
    this.#path = path;
    if (isServer) this.#listen();
    else this.#dial();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    this.#socket?.destroy();
    this.#server?.close();
  }

  #listen(): void {
    try {
      unlinkSync(this.#path);
    } catch {
      // Nothing was there.
    }
    this.#server = createServer((socket) => {
      this.#socket = socket.on("error", () => undefined).resume();
    }).listen(this.#path);
  }

  #dial(): void {
    const socket = connect(this.#path);
    this.#socket = socket;
    socket.resume();
    socket.once("connect", () => {
      this.errno = 0;
    });
    socket.on("error", (error: NodeJS.ErrnoException) => {
      this.errno = -(error.errno ?? 0);
    });
    socket.once("close", () => {
      if (this.#closed) return;
      this.#retry = setTimeout(() => this.#dial(), RETRY_MS);
      this.#retry.unref();
    });
  }
}
