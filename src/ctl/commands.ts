/** An option as parseArgs takes it, with what the help says of it. */
export interface DeclaredOption {
  readonly type: "boolean" | "string";
  readonly short?: string;
  /** What stands for the value of a string. */
  readonly value?: string;
  readonly help: string;
}

/** A command; help, man page and completions are made from these declarations, so that none can differ. */
export interface DeclaredCommand {
  readonly summary: string;
  /** Name of its argument, where it takes one. */
  readonly argument?: string;
  /** Arguments that there are. */
  readonly choices?: readonly string[];
  readonly options: Readonly<Record<string, DeclaredOption>>;
  /** One paragraph each. */
  readonly description: readonly string[];
}

/** Options of every command. */
export const COMMON_OPTIONS = {
  json: { type: "boolean", help: "print JSON, of a shape that only grows" },
  socket: {
    type: "string",
    value: "PATH",
    help: "the daemon's status socket, instead of what --config says",
  },
  config: {
    type: "string",
    value: "FILE",
    help: "the daemon's configuration (default /etc/kube-vhostuser/config.yaml)",
  },
  help: { type: "boolean", short: "h", help: "print this help" },
} as const satisfies Readonly<Record<string, DeclaredOption>>;

/** The commands by name. */
export const COMMANDS = {
  status: {
    summary: "show every interface of the node",
    options: {},
    description: [
      "Shows the node's pools and, for each pod, its interfaces: device, port, whether link and peer are up, pairs of queues, MTU, packets dropped in both directions, age and directory; then what is wrong.",
      "An interface that waits for its guest is no problem here; trace takes it for one.",
    ],
  },
  trace: {
    summary: "follow one pod's interfaces step by step",
    argument: "[NAMESPACE/]POD",
    options: {
      interface: {
        type: "string",
        short: "i",
        value: "NAME",
        help: "only this interface or device of the pod",
      },
    },
    description: [
      "Follows each interface of a pod from kubelet to the guest's queues: pod, allocation, directory, device-info, record, port, socket, connected, link, queues. It stops at the first link that is broken and names its cause and its cure.",
      "The name of a VirtualMachine will do for that of its pod.",
    ],
  },
  doctor: {
    summary: "check the node, also while the daemon is down",
    options: {},
    description: [
      "Checks configuration, root and its mount flags, kubelet's sockets, daemon, CNI socket, records, hugepages, switches, permissions, SELinux, versions and leftovers. It reads files and asks the switch itself, so it needs no daemon. It changes nothing.",
    ],
  },
  top: {
    summary: "show packets and drops per second",
    options: {
      once: { type: "boolean", help: "print one table and end" },
      interval: {
        type: "string",
        short: "n",
        value: "SECONDS",
        help: "time between two readings (default 5)",
      },
    },
    description: [
      "Shows for each interface packets, bits and drops per second in both directions as the guest sees them, the busiest first. Open vSwitch writes its counters every 5 seconds (other_config:stats-update-interval), so that is as fine as it gets; VPP does not tell its counters.",
      "With --json it prints one object a line for each reading.",
    ],
  },
  completion: {
    summary: "print a completion script",
    argument: "SHELL",
    choices: ["bash", "zsh", "fish"],
    options: {},
    description: [
      "Prints a completion script for bash, zsh or fish. Pods are completed from the running daemon.",
    ],
  },
} as const satisfies Readonly<Record<string, DeclaredCommand>>;

export type CommandName = keyof typeof COMMANDS;

/** Whether there is a command of that name. */
export function isCommand(name: string): name is CommandName {
  return Object.hasOwn(COMMANDS, name);
}

/** The declaration of a command, for those who treat all alike. */
export function declared(name: CommandName): DeclaredCommand {
  return COMMANDS[name];
}

/** What the program's exit code says. */
export const EXIT = {
  healthy: 0,
  problem: 1,
  /** Wrong usage, or the daemon cannot be reached. */
  unreachable: 2,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** The exit codes in words. */
export const EXIT_MEANINGS: readonly (readonly [code: ExitCode, meaning: string])[] = [
  [EXIT.healthy, "healthy"],
  [EXIT.problem, "a problem was found and named"],
  [EXIT.unreachable, "wrong usage, or the daemon cannot be reached"],
];
