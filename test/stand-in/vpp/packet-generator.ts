import type { Interface } from "./state.ts";

interface Stream {
  readonly name: string;
  readonly socket: string;
  readonly frame: string;
  isEnabled: boolean;
  count: number;
}

const NEW =
  /^packet-generator new \{ name (\S+) limit 1 source pg\d+ interface (\S+) node ethernet-input size (\d+)-(\d+) data \{ hex 0x([0-9a-f]+) \} \}$/;

/** The lines of VPP's command line that are about its packet generator, with what a real one prints. */
export class PacketGenerator {
  readonly sent: { readonly socket: string; readonly frame: string }[] = [];
  readonly #streams = new Map<string, Stream>();
  readonly #interfaces: ReadonlyMap<number, Interface>;

  constructor(interfaces: ReadonlyMap<number, Interface>) {
    this.#interfaces = interfaces;
  }

  get streams(): readonly string[] {
    return [...this.#streams.keys()];
  }

  /** @throws Error for a line that no client of ours has to write */
  execute(line: string): readonly [retval: number, answer: { readonly reply: string }] {
    const [, name = "", interfaceName = "", least, most, frame = ""] = NEW.exec(line) ?? [];
    if (name !== "") return this.#create({ name, interfaceName, least, most, frame });
    if (line === "show packet-generator") return [0, { reply: this.#show() }];
    const [, verb, stream = ""] = /^packet-generator (enable-stream|delete) (\S+)$/.exec(line) ?? [];
    const found = this.#streams.get(stream);
    if (verb === undefined) throw new Error(`a line that is not known: ${line}`);
    if (found === undefined) {
      return [-1, { reply: `packet-generator ${verb}: expected stream name \`${stream}'\n` }];
    }
    if (verb === "delete") {
      if (found.isEnabled) throw new Error(`stream ${stream} is deleted before its frame was sent`);
      this.#streams.delete(stream);
    } else this.#enable(found);
    return [0, { reply: "" }];
  }

  #create({
    name,
    interfaceName,
    least,
    most,
    frame,
  }: Record<"name" | "interfaceName" | "frame", string> & Record<"least" | "most", string | undefined>): [
    number,
    { reply: string },
  ] {
    const found = [...this.#interfaces.values()].find((one) => one.name === interfaceName);
    if (found?.vhost === undefined) {
      return [-1, { reply: `packet-generator new: unknown input \`interface ${interfaceName}'\n` }];
    }
    const bytes = frame.length / 2;
    if (Number(least) !== bytes || Number(most) !== bytes || bytes < 60) {
      throw new Error(`a frame of ${bytes} bytes is said to have ${least} to ${most}`);
    }
    if (this.#streams.has(name)) throw new Error(`stream ${name} is there already`);
    this.#streams.set(name, { name, socket: found.vhost.path, frame, isEnabled: false, count: 0 });
    return [0, { reply: "" }];
  }

  /** The frame goes in VPP's next round. */
  #enable(stream: Stream): void {
    stream.isEnabled = true;
    setTimeout(() => {
      this.sent.push({ socket: stream.socket, frame: stream.frame });
      stream.count = 1;
      stream.isEnabled = false;
    }, 2);
  }

  #show(): string {
    if (this.#streams.size === 0) return "no streams currently defined\n";
    const rows = [...this.#streams.values()].map(
      ({ name, isEnabled, count }) =>
        `${name.padEnd(20)} ${isEnabled ? "Yes" : "No"} ${String(count).padStart(13)}     limit 1`,
    );
    return ["Name               Enabled        Count     Parameters", ...rows, ""].join("\n");
  }
}
