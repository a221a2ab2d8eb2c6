// The devices of a node: its network interfaces, and `cni` for networks that need none.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { SliceDevice } from "../dra/inventory.ts";

const NET = "/sys/class/net";
/** The device for plugins that use no interface of the host. */
const WITHOUT_INTERFACE = "cni";
const DNS_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** Devices by their names, each with its host interface, null for none. */
export type HostDevices = ReadonlyMap<string, string | null>;

/**
 * Reads which devices there are.
 * @param wanted names of interfaces; undefined for all with hardware behind them
 */
export function readHostDevices(wanted: readonly string[] | undefined, directory = NET): HostDevices {
  const there = readdirSync(directory).sort();
  const offered = there.filter((name) =>
    wanted === undefined ? existsSync(join(directory, name, "device")) : wanted.includes(name),
  );
  return new Map([[WITHOUT_INTERFACE, null], ...offered.map((name) => [deviceOf(name), name] as const)]);
}

/** Devices as slices have them: shared, without a limit. */
export function sliceDevices(devices: HostDevices, directory = NET): readonly SliceDevice[] {
  return [...devices].map(([name, hostInterface]) => ({
    name,
    attributes:
      hostInterface === null
        ? {}
        : {
            interfaceName: { string: hostInterface },
            ...textOf("macAddress", join(directory, hostInterface, "address")),
            ...mtuOf(join(directory, hostInterface, "mtu")),
          },
    allowMultipleAllocations: true,
  }));
}

/** A device has a DNS label for a name, which an interface need not have; `cni` is taken. */
function deviceOf(name: string): string {
  if (DNS_LABEL.test(name) && name !== WITHOUT_INTERFACE) return name;
  return `if-${createHash("sha256").update(name).digest("hex").slice(0, 12)}`;
}

function textOf(key: string, file: string): SliceDevice["attributes"] {
  const string = read(file);
  return string === "" ? {} : { [key]: { string } };
}

function mtuOf(file: string): SliceDevice["attributes"] {
  const int = Number(read(file));
  return int > 0 ? { mtu: { int } } : {};
}

/** Empty for an interface that is gone meanwhile. */
function read(file: string): string {
  try {
    return readFileSync(file, "utf8").trim();
  } catch {
    return "";
  }
}
