import { once } from "node:events";
import { unlinkSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { flagsOf, HANDLERS } from "./handlers.ts";
import { done, type Outcome } from "./outcome.ts";
import { type Interface, SwitchState } from "./state.ts";
import { answers, type Definition, printFields, readFields, requests } from "./wire-format.ts";

const HEADER_BYTES = 16;
const HELLO_ID = 15;
const WELCOME_ID = 16;
const HELLO_BYTES = 70;
const NO_GENERATOR = done("cli_inband", -1, { reply: "unknown input `packet-generator'\n" });
const NO_STREAM = done("cli_inband", -1, { reply: "packet-generator new: pg0 is in use\n" });

const VERSION = { retval: 0, program: "vpe", build_date: "", build_directory: "" };

/** How the stand-in behaves. */
export interface VppStandInOptions {
  /** Path of its API socket. */
  readonly path: string;
  /** Names of messages that it does not have, as if a plugin were not loaded or the release were older. */
  readonly lacks?: readonly string[];
  /** Of an old one it has the defects that the product avoids, and notes them where it does not; default the newest. */
  readonly release?: "22.06.1" | "24.10" | "26.06";
  /** Other checksums than the usual, by name of message. */
  readonly checksums?: Readonly<Record<string, string>>;
  /** Names of the interfaces on PCI hardware, which it has after every start. */
  readonly nics?: readonly string[];
}

/**
 * Stands in for VPP's control plane: it speaks the binary API as VPP does and keeps interfaces, bridge domains and
 * policers, but no packet ever passes. What a real VPP drops without a word it drops too, and notes; what would do a
 * real VPP harm it notes as well.
 */
export class VppStandIn {
  /** What clients did that they must not do, one sentence each. */
  readonly violations: string[] = [];
  /** How many requests came. */
  requests = 0;
  /** Whether its command line has no packet generator, or refuses that a stream is made. */
  refusesLines: "all" | "streams" | undefined;
  readonly #options: VppStandInOptions;
  #state = new SwitchState({ keepsNeighbors: false, nics: [] });
  #server: Server | undefined;
  #clients = new Map<Socket, { index: number; eventPid: number | undefined }>();
  #ids = new Map<number, Definition>();
  #byName = new Map<string, readonly [number, Definition]>();
  #starts = 0;

  constructor(options: VppStandInOptions) {
    this.#options = options;
  }

  /** Starts with nothing configured, and with other message numbers than the last time. */
  async start(): Promise<void> {
    this.#starts += 1;
    const { release = "26.06", nics = [] } = this.#options;
    this.#state = new SwitchState({ keepsNeighbors: release < "26.02", nics });
    this.#ids = this.#number();
    this.#byName = new Map([...this.#ids].map((entry) => [entry[1].name, entry]));
    try {
      unlinkSync(this.#options.path); // as VPP does: its socket file outlives it
    } catch {
      // There was none.
    }
    this.#server = createServer((socket) => this.#accept(socket));
    await once(this.#server.listen(this.#options.path), "listening");
  }

  /** Ends as by SIGKILL. */
  async kill(): Promise<void> {
    this.#state.close();
    for (const socket of this.#clients.keys()) socket.destroy();
    this.#clients.clear();
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    server.close();
    await once(server, "close");
  }

  /** Plays a guest that comes up behind a socket, or goes. */
  setGuest(path: string, up: boolean): void {
    const found = [...this.#state.interfaces.values()].find(({ vhost }) => vhost?.path === path);
    if (found === undefined) throw new Error(`no interface has the socket ${path}`);
    found.guest = up;
    this.#notify(found.index, false);
  }

  /** Frames that the packet generator sent, by the sockets of the interfaces that they came in by. */
  get sent(): readonly { readonly socket: string; readonly frame: string }[] {
    return this.#state.generator.sent;
  }

  /** Names of its streams. */
  get streams(): readonly string[] {
    return this.#state.generator.streams;
  }

  /** The members of a bridge domain, with what VPP does not report over its API. */
  members(bridge: number): readonly (Pick<Interface, "vlan" | "rewrite" | "filtered"> & {
    /** Directions in which a policer is applied. */
    readonly policed: readonly string[];
  })[] {
    return this.#state.membersOf(bridge).map(({ vlan, rewrite, filtered, index }) => ({
      vlan,
      rewrite,
      filtered,
      policed: ["in", "out"].filter((direction) => this.#state.applied.has(`${direction} ${index}`)),
    }));
  }

  #number(): Map<number, Definition> {
    const { lacks = [], checksums = {} } = this.#options;
    const known = [...requests.values(), ...answers.values()].filter(({ name }) => !lacks.includes(name));
    const from = 40 + this.#starts * 100;
    return new Map(
      known.map((one, at) => [from + at, { ...one, checksum: checksums[one.name] ?? one.checksum }]),
    );
  }

  #accept(socket: Socket): void {
    let pending: Buffer = Buffer.alloc(0);
    socket.on("error", () => undefined);
    socket.once("close", () => this.#clients.delete(socket));
    this.#clients.set(socket, { index: -1, eventPid: undefined });
    socket.on("data", (chunk) => {
      pending = Buffer.concat([pending, chunk]);
      socket.cork();
      process.nextTick(() => socket.uncork());
      while (pending.length >= HEADER_BYTES) {
        const end = HEADER_BYTES + pending.readUInt32BE(8);
        if (pending.length < end) return;
        const message = pending.subarray(HEADER_BYTES, end);
        pending = pending.subarray(end);
        try {
          this.#take(socket, message);
        } catch (error) {
          this.violations.push(error instanceof Error ? error.message : String(error));
        }
      }
    });
  }

  #take(socket: Socket, message: Buffer): void {
    const client = this.#clients.get(socket);
    if (client === undefined) return;
    this.requests += 1;
    const id = message.readUInt16BE(0);
    if (id === HELLO_ID) {
      client.index = this.#welcome(socket, message);
      return;
    }
    const definition = this.#ids.get(id);
    const handler = HANDLERS.get(definition?.name ?? "");
    if (definition === undefined || handler === undefined) throw new Error(`no handler for message ${id}`);
    const [index, context] = [message.readUInt32BE(2), message.readUInt32BE(6)];
    if (index !== client.index)
      throw new Error(`${definition.name} comes from client ${index}, not ${client.index}`);
    if (context === 0) throw new Error(`${definition.name} has no context`);
    const ask = readFields(definition, message.subarray(10));
    if (definition.name === "want_interface_events") {
      const isWanted = ask.enable_disable === 1;
      if (isWanted === (client.eventPid !== undefined)) {
        this.#say(socket, "want_interface_events_reply", context, { retval: -31 });
        return;
      }
      client.eventPid = isWanted ? Number(ask.pid) : undefined;
    }
    const { release = "26.06" } = this.#options;
    if (definition.name === "show_version") {
      this.#say(socket, "show_version_reply", context, { ...VERSION, version: `${release}-release` });
      return;
    }
    const refused = definition.name === "cli_inband" ? this.#refused(String(ask.cmd)) : undefined;
    if (release < "26.02" && definition.name === "cli_inband" && String(ask.cmd).includes(" new ")) {
      throw new Error("a frame is given to a packet generator that crashes VPP");
    }
    const { says, changed = [] } = refused ?? handler(this.#state, ask);
    for (const { index: touched, deleted } of changed) this.#notify(touched, deleted);
    for (const [name, fields] of says) {
      const answer = name.startsWith("control_ping") ? { ...fields, client_index: index } : fields;
      this.#say(socket, name, context, answer);
    }
  }

  #refused(line: string): Outcome | undefined {
    if (this.refusesLines === "all") return NO_GENERATOR;
    const isNew = line.startsWith("packet-generator new ");
    return isNew && this.refusesLines === "streams" ? NO_STREAM : undefined;
  }

  #welcome(socket: Socket, message: Buffer): number {
    if (message.length !== HELLO_BYTES) throw new Error(`sockclnt_create has ${message.length} bytes`);
    if (message.at(-1) !== 0) throw new Error("the client's name is not ended by a NUL");
    const index = 0x100 + this.#starts * 16 + this.#clients.size;
    const table = [...this.#ids].map(([id, { name, checksum }]) => {
      const entry = Buffer.alloc(66);
      entry.writeUInt16BE(id);
      entry.write(`${name}_${checksum}`, 2);
      return entry;
    });
    const head = Buffer.alloc(20);
    head.writeUInt16BE(WELCOME_ID, 0);
    message.copy(head, 6, 2, 6);
    head.writeUInt32BE(index, 14);
    head.writeUInt16BE(table.length, 18);
    this.#send(socket, Buffer.concat([head, ...table]));
    return index;
  }

  #notify(index: number, deleted: boolean): void {
    const flags = flagsOf(this.#state.interfaces.get(index));
    for (const [socket, { index: client, eventPid }] of this.#clients) {
      if (eventPid === undefined) continue;
      this.#say(socket, "sw_interface_event", client, { pid: eventPid, sw_if_index: index, flags, deleted });
    }
  }

  #say(socket: Socket, name: string, context: number, fields: Readonly<Record<string, unknown>>): void {
    const [id, definition] = this.#byName.get(name) ?? [];
    if (id === undefined || definition === undefined) throw new Error(`${name} cannot be said`);
    const head = Buffer.alloc(6);
    head.writeUInt16BE(id, 0);
    head.writeUInt32BE(context, 2);
    this.#send(socket, Buffer.concat([head, printFields(definition, fields)]));
  }

  #send(socket: Socket, message: Buffer): void {
    const head = Buffer.alloc(HEADER_BYTES, 0xa5); // VPP sends what is in its memory there
    head.writeUInt32BE(message.length, 8);
    socket.write(Buffer.concat([head, message]));
  }
}
