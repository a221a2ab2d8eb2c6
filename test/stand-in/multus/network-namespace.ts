import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Fails as Multus does before ADD: when the namespace is not there, or has such an interface already. */
export async function checkInterfaceIsFree(netns: string, ifName: string): Promise<void> {
  if (!existsSync(netns)) throw new Error(`cannot open network namespace ${JSON.stringify(netns)}`);
  if (await hasInterface(netns, ifName)) throw new Error(`${ifName} exists in ${netns} already`);
}

async function hasInterface(netns: string, ifName: string): Promise<boolean> {
  const [theirs, ours] = await Promise.all([stat(netns), stat("/proc/self/ns/net")]);
  // Reading our own namespace needs no privilege.
  if (theirs.ino === ours.ino && theirs.dev === ours.dev) return existsSync(`/sys/class/net/${ifName}`);
  try {
    const { stdout } = await run("nsenter", [`--net=${netns}`, "ip", "-json", "link", "show"]);
    const links = JSON.parse(stdout) as readonly { readonly ifname: string }[];
    return links.some(({ ifname }) => ifname === ifName);
  } catch (error) {
    throw new Error(`cannot look into ${netns}: needs root, and apt-get install iproute2 util-linux`, {
      cause: error,
    });
  }
}
