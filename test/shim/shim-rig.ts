import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RunningShim, type ShimCall, type ShimCommand, type ShimEnd, startShim } from "./run-shim.ts";
import type { DaemonSide, ScriptedDaemon } from "./scripted-daemon.ts";
import { playDaemon } from "./scripted-daemon.ts";

/** A call in the words of a test: CNI_COMMAND, the rest as of ShimCall. */
export type RigCall = Partial<ShimCall> & { readonly verb: string; readonly command?: ShimCommand };

/** A directory with a socket for the daemon that the test plays, and one for CNI plugins. */
export class ShimRig implements AsyncDisposable {
  readonly directory: string;
  readonly plugins: string;
  readonly #command: ShimCommand;
  readonly #daemons: ScriptedDaemon[] = [];
  readonly #running = new Set<RunningShim>();

  private constructor(directory: string, command: ShimCommand) {
    this.directory = directory;
    this.plugins = join(directory, "plugins");
    this.#command = command;
  }

  static async open(command: ShimCommand): Promise<ShimRig> {
    const rig = new ShimRig(await mkdtemp(join(tmpdir(), "kvu-shim-")), command);
    await mkdir(rig.plugins);
    return rig;
  }

  get socketPath(): string {
    return join(this.directory, "cni.sock");
  }

  async daemon(script: (side: DaemonSide, connection: number) => unknown): Promise<ScriptedDaemon> {
    const daemon = await playDaemon(this.socketPath, script);
    this.#daemons.push(daemon);
    return daemon;
  }

  /** Writes a shell script that the shim finds in CNI_PATH. */
  async plugin(name: string, script: string, folder = this.plugins): Promise<string> {
    await mkdir(folder, { recursive: true });
    const path = join(folder, name);
    await writeFile(path, `#!/bin/sh\n${script}\n`);
    await chmod(path, 0o755);
    return path;
  }

  start(call: RigCall): RunningShim {
    const own = {
      CNI_COMMAND: call.verb,
      KUBE_VHOSTUSER_CNI_SOCKET: this.socketPath,
      CNI_PATH: this.plugins,
    };
    const env = { PATH: "/usr/bin:/bin", ...own, ...call.env };
    return this.startBare({ ...call, env, stdin: "stdin" in call ? call.stdin : "{}" });
  }

  /** With nothing but the environment that is given. */
  startBare(call: ShimCall & { readonly command?: ShimCommand }): RunningShim {
    const running = startShim(call.command ?? this.#command, call);
    this.#running.add(running);
    void running.ended.then(() => this.#running.delete(running));
    return running;
  }

  run(call: RigCall): Promise<ShimEnd> {
    return this.start(call).ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { process } of this.#running) process.kill("SIGKILL");
    for (const daemon of this.#daemons) await daemon.close();
    await rm(this.directory, { recursive: true, force: true });
  }
}
