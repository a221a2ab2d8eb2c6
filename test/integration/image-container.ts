import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Child, startChild } from "../machine/child.ts";
import type { LabRun } from "../machine/lab-run.ts";

/** What a pod's manifest says of a container, and what kubelet makes of it. */
export interface ContainerSpec {
  /** Unpacked image. */
  readonly rootfs: string;
  /** Default: the image's entry point. */
  readonly args: readonly string[];
  readonly uid: number;
  /** By their names with CAP_; default none. `all` is a privileged container. */
  readonly capabilities?: readonly string[] | "all";
  readonly mounts?: readonly {
    readonly from: string;
    readonly to: string;
    /** Default `rprivate`, as Kubernetes' None. */
    readonly propagation?: "rshared" | "rslave" | "rprivate";
    readonly readOnly?: boolean;
  }[];
  readonly env?: Readonly<Record<string, string>>;
}

const ALL_CAPABILITIES = [
  "CHOWN",
  "DAC_OVERRIDE",
  "FOWNER",
  "FSETID",
  "SYS_ADMIN",
  "MKNOD",
  "SETUID",
  "SETGID",
];

/** Containers of an image as a runtime makes them: read-only root, capabilities, no new privileges; by runc. */
export class ImageContainers {
  readonly #run: LabRun;
  readonly #path: string;
  #count = 0;

  /** @param path the image's PATH */
  constructor(run: LabRun, path: string) {
    this.#run = run;
    this.#path = path;
  }

  /** Runs a container to its end. */
  async runToEnd(spec: ContainerSpec): Promise<{ code: number | null; stdout: string; stderr: string }> {
    const { command, name } = await this.#prepare(spec);
    const [program = "", ...args] = command;
    const { status, stdout, stderr } = spawnSync(program, args, { encoding: "utf8", timeout: 60_000 });
    spawnSync("runc", ["--root", this.#state, "delete", "--force", name]);
    return { code: status, stdout, stderr };
  }

  /** Runs a program in a container that serves, as kubectl exec does. */
  exec(container: Child, args: readonly string[]): { code: number | null; stdout: string; stderr: string } {
    const command = ["--root", this.#state, "exec", container.name, ...args];
    const { status, stdout, stderr } = spawnSync("runc", command, { encoding: "utf8", timeout: 60_000 });
    return { code: status, stdout, stderr };
  }

  /** Starts a container that serves; it ends with the run at the latest, and gets the signals itself. */
  async start(spec: ContainerSpec): Promise<Child> {
    const { command, name } = await this.#prepare(spec);
    const pidFile = join(this.#run.directory, `${name}.pid`);
    const [program = "", ...args] = command;
    this.#run.cleanup.defer(`delete container ${name}`, async () => {
      spawnSync("runc", ["--root", this.#state, "delete", "--force", name]);
    });
    return startChild(this.#run, {
      name,
      command: program,
      args: [...args.slice(0, -1), "--pid-file", pidFile, name],
      fix: "apt-get install runc",
      // Tests check how it ends on its own.
      stopLimitMs: 60_000,
      signalPid: () => Number(readFileSync(pidFile, "utf8")),
    });
  }

  get #state(): string {
    return join(this.#run.directory, "runc");
  }

  async #prepare(spec: ContainerSpec): Promise<{ command: readonly string[]; name: string }> {
    const name = `image-${this.#run.name.toLowerCase()}-${this.#count++}`;
    const bundle = join(this.#run.directory, name);
    await mkdir(bundle, { recursive: true });
    await writeFile(join(bundle, "config.json"), JSON.stringify(this.#config(spec)));
    return { name, command: ["runc", "--root", this.#state, "run", "--bundle", bundle, name] };
  }

  /** https://github.com/opencontainers/runtime-spec/blob/main/config.md */
  #config({ rootfs, args, uid, capabilities = [], mounts = [], env = {} }: ContainerSpec): object {
    const names = capabilities === "all" ? ALL_CAPABILITIES.map((name) => `CAP_${name}`) : [...capabilities];
    const noExec = ["nosuid", "noexec", "nodev"];
    const shares = mounts.some(({ propagation }) => propagation === "rshared");
    return {
      ociVersion: "1.0.2",
      process: {
        args,
        cwd: "/",
        env: [`PATH=${this.#path}`, ...Object.entries(env).map(([key, value]) => `${key}=${value}`)],
        user: { uid, gid: uid },
        capabilities: Object.fromEntries(
          // What execve leaves of them: a user that is not root gets none.
          ["bounding", "effective", "permitted"].map((set) => [set, names]),
        ),
        noNewPrivileges: capabilities !== "all",
      },
      root: { path: rootfs, readonly: true },
      hostname: "image",
      mounts: [
        { destination: "/proc", type: "proc", source: "proc" },
        { destination: "/dev", type: "tmpfs", source: "tmpfs", options: ["nosuid", "mode=755", "size=64k"] },
        { destination: "/sys", type: "sysfs", source: "sysfs", options: [...noExec, "ro"] },
        ...mounts.map(({ from, to, propagation = "rprivate", readOnly = false }) => ({
          ...{ destination: to, type: "bind", source: from },
          options: ["rbind", propagation, ...(readOnly ? ["ro"] : [])],
        })),
      ],
      linux: {
        // The network is the machine's, so that a test reaches the probes.
        namespaces: ["pid", "ipc", "uts", "mount"].map((type) => ({ type })),
        rootfsPropagation: shares ? "rshared" : "rslave",
      },
    };
  }
}
