import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { executePluginsOf } from "../../../src/ipam/execute-plugin.ts";
import type { Delegate } from "../../../src/ipam/ipam.ts";

/**
 * A CNI plugin that records its calls, one line each: verb, plugin, interface, container and namespace. It gives the
 * interface the address that its configuration has, and fails where a file says so.
 */
const PLUGIN = `#!/bin/sh
read -r config
directory=$(dirname "$0")
plugin=$(basename "$0")
echo "$CNI_COMMAND $plugin $CNI_IFNAME $CNI_CONTAINERID \${CNI_NETNS:-none}" >> "$directory/calls"
echo "$config" > "$directory/stdin-$CNI_COMMAND-$plugin"
env > "$directory/env"
if [ -e "$directory/hold" ]; then while [ -e "$directory/hold" ]; do sleep 0.02; done; fi
if [ -e "$directory/fail-$CNI_COMMAND-$CNI_IFNAME" ]; then
  echo '{"cniVersion": "1.0.0", "code": 100, "msg": "no carrier on '$CNI_IFNAME'"}'
  exit 1
fi
[ "$CNI_COMMAND" = ADD ] || exit 0
cat <<END
{"cniVersion": "1.0.0",
 "interfaces": [{"name": "veth1"}, {"name": "$CNI_IFNAME", "mac": "02:00:00:00:00:01", "sandbox": "$CNI_NETNS"}],
 "ips": [{"address": "10.1.2.3/24", "interface": 1}, {"address": "10.9.9.9/24", "interface": 0}]}
END
`;

/** Real executables in a directory, which record what they are called with. */
export class RecordingPlugins {
  readonly directory: string;
  readonly delegate: Delegate;

  constructor(directory: string) {
    this.directory = directory;
    this.delegate = executePluginsOf(directory);
  }

  async install(...names: readonly string[]): Promise<void> {
    await mkdir(this.directory, { recursive: true });
    for (const name of names) await writeFile(join(this.directory, name), PLUGIN, { mode: 0o755 });
  }

  /** Calls since {@link takeCalls}. */
  async calls(): Promise<readonly string[]> {
    const text = await readFile(join(this.directory, "calls"), "utf8").catch(() => "");
    return text.split("\n").filter((line) => line !== "");
  }

  /** Calls since the last time; to be called while none runs. */
  async takeCalls(): Promise<readonly string[]> {
    const calls = await this.calls();
    await rm(join(this.directory, "calls"), { force: true });
    return calls;
  }

  async stdinOf(verb: "ADD" | "CHECK" | "DEL", plugin: string): Promise<Record<string, unknown>> {
    return JSON.parse(await readFile(join(this.directory, `stdin-${verb}-${plugin}`), "utf8"));
  }

  async env(): Promise<string> {
    return readFile(join(this.directory, "env"), "utf8");
  }

  /** Has a verb of an interface fail, or work again. */
  async setFailing(verb: "ADD" | "CHECK" | "DEL", ifName: string, isFailing: boolean): Promise<void> {
    await this.#toggle(`fail-${verb}-${ifName}`, isFailing);
  }

  /** Has calls wait, or go on. */
  async setHeld(isHeld: boolean): Promise<void> {
    await this.#toggle("hold", isHeld);
  }

  async #toggle(file: string, isThere: boolean): Promise<void> {
    const path = join(this.directory, file);
    await (isThere ? writeFile(path, "") : rm(path, { force: true }));
  }
}
