import { readFile } from "node:fs/promises";
import { Failure } from "../../src/failure/failure.ts";
import { hasTestpmd, TESTPMD_PATH } from "../machine/testpmd-program.ts";
import { waitUntil } from "../machine/wait-until.ts";
import type { Container, ContainerOptions, Pod } from "./pod.ts";

/** Hugepages of 2 MiB that one testpmd takes. */
export const TESTPMD_HUGEPAGES = 32;
/** Packets in one burst of testpmd's transmit engine. */
export const BURST_PACKETS = 32;

/** Packets that went through testpmd's port. */
export interface PacketCounts {
  readonly tx: number;
  readonly rx: number;
}

/** Forwarding engines of testpmd that the lab uses; see its user guide. */
export type ForwardMode = "rxonly" | "txonly" | "flowgen" | "icmpecho" | "macswap" | "io";

/** What to run. */
export interface TestpmdOptions extends Pick<ContainerOptions, "mounts" | "env" | "uid" | "runtimeSeccomp"> {
  /** The vhost-user socket as the container sees it. */
  readonly socketPath: string;
  /** Default true: testpmd makes the socket; else it connects to the switch's, which has to be there. */
  readonly server?: boolean;
  /** MAC address of the port: source of what it sends. */
  readonly mac: string;
  /** Destination of what it sends; testpmd's own default is 02:00:00:00:00:00. */
  readonly peerMac?: string;
  /** Queue pairs; default 1. */
  readonly queues?: number;
  /** How long the switch may take to connect; default 30 000. */
  readonly connectLimitMs?: number;
}

/** A container workload with a vhost-user port: dpdk-testpmd with a virtio-user device in server mode. */
export interface Testpmd {
  readonly container: Container;
  /** Waits until the switch has connected and the port is started. */
  waitForSwitch(): Promise<void>;
  /**
   * Sends exactly `bursts` times 32 packets of 64 bytes (UDP, 198.18.0.1 to 198.18.0.2), or as long as `bytes` says
   * without their checksum, then only receives. Resolves when they are sent.
   */
  sendBursts(bursts: number, bytes?: number): Promise<PacketCounts>;
  /** Starts an engine; it runs as fast as a core can until {@link pause}. */
  forward(mode: ForwardMode): Promise<void>;
  /** Ends forwarding; the port stays up. */
  pause(): Promise<PacketCounts>;
  /** Since its start. */
  counts(): Promise<PacketCounts>;
  /** Ends testpmd in order and gives its last counts. */
  stop(): Promise<PacketCounts>;
}

/**
 * Starts dpdk-testpmd in a pod. Its memory is hugepages behind one descriptor (--single-file-segments), which the
 * switch maps; --in-memory leaves no files, so two of them do not meet. Both its cores are CPU 0: the switch has 1.
 */
export async function startTestpmd(pod: Pod, options: TestpmdOptions): Promise<Testpmd> {
  if (!hasTestpmd()) {
    throw new Failure({
      code: "part-missing",
      what: "dpdk-testpmd was not unpacked",
      where: TESTPMD_PATH,
      fix: "npm test unpacks it: apt-get download dpdk-dev",
    });
  }
  const queues = options.queues ?? 1;
  const device = [
    "net_virtio_user0",
    `mac=${options.mac}`,
    `path=${options.socketPath}`,
    `server=${options.server === false ? 0 : 1}`,
  ];
  const container = await pod.startContainer({
    name: "testpmd",
    // To a file, testpmd would print in blocks of 4 KiB.
    command: [
      ...[
        "stdbuf",
        "-oL",
        TESTPMD_PATH,
        "--lcores=0@0,1@0",
        "--no-pci",
        "--in-memory",
        "--single-file-segments",
      ],
      ...["-m", "64", "--no-telemetry", `--vdev=${[...device, `queues=${queues}`].join(",")}`],
      ...["--", "-i", "--total-num-mbufs=2048", "--nb-cores=1", `--rxq=${queues}`, `--txq=${queues}`],
      ...(options.peerMac === undefined ? [] : [`--eth-peer=0,${options.peerMac}`]),
    ],
    mounts: [
      { hostPath: TESTPMD_PATH, containerPath: TESTPMD_PATH, readOnly: true },
      ...(options.mounts ?? []),
    ],
    stdin: true,
    ...(options.env === undefined ? {} : { env: options.env }),
    ...(options.uid === undefined ? {} : { uid: options.uid }),
    ...(options.runtimeSeccomp === undefined ? {} : { runtimeSeccomp: options.runtimeSeccomp }),
  });
  const connectLimitMs = options.connectLimitMs ?? 60_000;
  const prompt = openPrompt(container, pod);
  const counts = async () => readCounts(await prompt.ask("show port stats 0", /TX-packets:.*\n/));
  let running = false;
  const start = async (mode: ForwardMode, command: string) => {
    await prompt.ask(`set fwd ${mode}`, new RegExp(`Set ${mode} packet forwarding mode`));
    await prompt.ask(command, /nb forwarding ports=1/);
    running = true;
  };
  const pause = async () => {
    if (running) await prompt.ask("stop", /^Done\./m);
    running = false;
    return counts();
  };
  return {
    container,
    waitForSwitch: () => prompt.waitFor(/testpmd> $/, connectLimitMs, "the switch connects to testpmd"),
    sendBursts: async (bursts, bytes = 64) => {
      const before = await pause();
      await prompt.ask(`set txpkts ${bytes}`, /testpmd> /);
      await start("rxonly", `start tx_first ${bursts}`);
      return waitUntil(
        async () => {
          const now = await counts();
          return now.tx - before.tx >= bursts * BURST_PACKETS ? now : undefined;
        },
        { what: `testpmd has sent ${bursts} bursts`, signal: pod.run.cleanup.signal },
      );
    },
    forward: async (mode) => {
      await pause();
      await start(mode, "start");
    },
    pause,
    counts,
    stop: async () => {
      const last = await pause();
      container.stdin?.write("quit\n");
      const gone = waitUntil(() => !container.isRunning(), { what: "testpmd ends", limitMs: 5000 });
      await gone.catch(() => undefined); // then it is ended by a signal
      await container.stop();
      return last;
    },
  };
}

/** Commands to testpmd's prompt and its answers, which it prints to the container's log. */
function openPrompt(container: Container, pod: Pod) {
  const waitFor = async (answer: RegExp, limitMs: number, what: string, from = 0) => {
    let text = "";
    await waitUntil(
      async () => {
        text = (await readFile(container.log, "utf8")).slice(from);
        if (answer.test(text)) return true;
        if (container.isRunning()) return false;
        throw new Failure({ code: "internal", what: `testpmd ended: ${text.slice(-1500)}` });
      },
      { what, limitMs, signal: pod.run.cleanup.signal, detail: () => text.slice(-1500) },
    );
    return text;
  };
  return {
    waitFor: async (answer: RegExp, limitMs: number, what: string) => {
      await waitFor(answer, limitMs, what);
    },
    ask: async (command: string, answer: RegExp) => {
      const from = (await readFile(container.log, "utf8")).length;
      container.stdin?.write(`${command}\n`);
      return waitFor(answer, 60_000, `testpmd answers "${command}"`, from);
    },
  };
}

function readCounts(text: string): PacketCounts {
  const [rx, tx] = ["RX", "TX"].map((side) =>
    Number(new RegExp(`${side}-packets:\\s*(\\d+)`).exec(text)?.[1]),
  );
  return { tx: tx ?? Number.NaN, rx: rx ?? Number.NaN };
}
