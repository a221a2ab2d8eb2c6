import { Failure } from "../../src/failure/failure.ts";
import { type ConsoleOptions, GuestConsole } from "./console.ts";

/** What a run of pings saw; see test/guest/probe.c for the two measures of an outage. */
export interface PingFigures {
  readonly sent: number;
  readonly received: number;
  readonly lost: number;
  readonly duplicates: number;
  /** Longest time between two answers, ms. */
  readonly longestGapMs: number;
  /** From the first unanswered request of the longest run of losses to the next answered one, ms. */
  readonly longestLossMs: number;
  readonly rttMinUs: number;
  readonly rttAvgUs: number;
  readonly rttMaxUs: number;
}

/** Frames that arrived at an interface. */
export interface FrameFigures {
  readonly frames: number;
  readonly bytes: number;
  /** Lost between the guest's kernel and the counter. */
  readonly dropped: number;
}

/** Something that runs in the guest until it is asked for its figures. */
export interface Measurement<T> {
  /** Ends it and gives what it saw. */
  stop(): Promise<T>;
}

/** A booted guest of the lab, commanded over its serial console. */
export class Guest {
  readonly name: string;
  readonly console: GuestConsole;
  #nextFile = 1;

  /** @param consolePath the console's unix socket as this process sees it */
  constructor(name: string, consolePath: string) {
    this.name = name;
    this.console = new GuestConsole(consolePath);
  }

  /** Waits until it has booted. */
  waitForBoot(options?: ConsoleOptions): Promise<void> {
    return this.console.waitForBoot(options);
  }

  /** Runs a shell command. @throws Failure internal where it fails, with what it printed */
  async run(command: string, options?: ConsoleOptions): Promise<string> {
    const { output, status } = await this.console.run(command, options);
    if (status === 0) return output;
    throw new Failure({
      code: "internal",
      what: `"${command}" ended with ${status}: ${output.trim()}`,
      where: `guest ${this.name}`,
    });
  }

  /** Gives the interface with this MAC an address like `10.1.0.1/24` and sets it up; resolves with its name. */
  async setAddress(mac: string, address: string): Promise<string> {
    const name = (await this.run(`interface_of ${mac.toLowerCase()}`)).trim();
    await this.run(`ip address replace ${address} dev ${name} && ip link set ${name} up`);
    return name;
  }

  /** Has the guest ask by DHCP on the interface with this MAC, and use what it is given; resolves with address and server. */
  async askByDhcp(mac: string): Promise<string> {
    const name = (await this.run(`interface_of ${mac.toLowerCase()}`)).trim();
    const client = `udhcpc -i ${name} -f -q -n -t 20 -T 1 -O mtu -O staticroutes -s /udhcpc.sh`;
    const output = await this.run(`ip link set ${name} up && ${client}`, { limitMs: 60_000 });
    return /given (.*)/.exec(output)?.[1]?.trim() ?? output;
  }

  /** The interface with this MAC: name, MTU and number of receive queues. */
  async interfaceOf(mac: string): Promise<{ name: string; mtu: number; queues: number }> {
    const name = (await this.run(`interface_of ${mac.toLowerCase()}`)).trim();
    const path = `/sys/class/net/${name}`;
    const answer = await this.run(`cat ${path}/mtu; ls -d ${path}/queues/rx-* | wc -l`);
    const [mtu, queues] = answer.trim().split(/\s+/).map(Number);
    return { name, mtu: mtu ?? 0, queues: queues ?? 0 };
  }

  /** Whether the interface with this MAC, which must be up, has a link. */
  async hasCarrier(mac: string): Promise<boolean> {
    return (await this.run(`cat /sys/class/net/$(interface_of ${mac.toLowerCase()})/carrier`)).trim() === "1";
  }

  /** A few pings to a peer, 10 ms apart; resolves with what came back. */
  async ping(address: string, count = 1): Promise<PingFigures> {
    const limitMs = 20_000 + count * 10;
    return readPing(await this.run(`probe ping ${address} 10 ${count}`, { limitMs }));
  }

  /** Pings once until an answer comes. @throws Failure internal when none came in time */
  async waitForPeer(address: string, limitMs = 20_000): Promise<void> {
    // `probe` waits a second for late answers, so this asks about once a second.
    const tries = Math.ceil(limitMs / 1000);
    await this.run(
      `for try in $(seq ${tries}); do probe ping ${address} 10 1 | grep -q received=1 && break; done; [ "$?" = 0 ]`,
      { limitMs: limitMs * 2 },
    );
  }

  /** Starts to ping a peer every `intervalMs` until stopped. */
  startPing(address: string, intervalMs = 10): Promise<Measurement<PingFigures>> {
    return this.#measure(`probe ping ${address} ${intervalMs}`, readPing);
  }

  /** Starts to count the frames that arrive at the interface with this MAC, all or those from one sender. */
  async startCount(mac: string, sourceMac?: string): Promise<Measurement<FrameFigures>> {
    const name = (await this.run(`interface_of ${mac.toLowerCase()}`)).trim();
    await this.run(`ip link set ${name} up`);
    return this.#measure(`probe count ${name} ${sourceMac ?? ""}`, readFrames);
  }

  async #measure<T>(command: string, read: (text: string) => T): Promise<Measurement<T>> {
    const file = `/tmp/measure-${this.#nextFile++}`;
    const pid = (await this.run(`${command} > ${file} 2>&1 & echo $!`)).trim();
    return {
      stop: async () => {
        const text = await this.run(`kill ${pid}; wait ${pid}; cat ${file}; rm ${file}`, { limitMs: 30_000 });
        return read(text);
      },
    };
  }
}

function readPing(text: string): PingFigures {
  const figures = readFigures(text);
  return {
    sent: figures("sent"),
    received: figures("received"),
    lost: figures("lost"),
    duplicates: figures("duplicates"),
    longestGapMs: figures("longest_gap_ms"),
    longestLossMs: figures("longest_loss_ms"),
    rttMinUs: figures("rtt_min_us"),
    rttAvgUs: figures("rtt_avg_us"),
    rttMaxUs: figures("rtt_max_us"),
  };
}

function readFrames(text: string): FrameFigures {
  const figures = readFigures(text);
  return { frames: figures("frames"), bytes: figures("bytes"), dropped: figures("dropped") };
}

function readFigures(text: string): (name: string) => number {
  return (name) => {
    const found = new RegExp(`\\b${name}=(\\d+)`).exec(text);
    if (found !== null) return Number(found[1]);
    throw new Failure({ code: "internal", what: `the probe printed no "${name}=": ${text.trim()}` });
  };
}
