import { openDataplane } from "../../dataplane/open-dataplane.ts";
import { isSameSwitch } from "../../dataplane/switch-kind.ts";
import { describeThrown } from "../../failure/failure.ts";
import { silentLogger } from "../../logging/logger.ts";
import { within } from "../../sync/deadlines.ts";
import { CONFIG_FILE, findConfig } from "../settings.ts";
import { daemonCheck } from "./check-daemon.ts";
import { hugepagesCheck, userCheck, versionsCheck } from "./check-host.ts";
import { leftoversCheck } from "./check-leftovers.ts";
import { permissionsCheck } from "./check-permissions.ts";
import { recordsCheck } from "./check-records.ts";
import { rootCheck } from "./check-root.ts";
import { selinuxCheck } from "./check-selinux.ts";
import { cniCheck, kubeletCheck } from "./check-sockets.ts";
import { switchCheck } from "./check-switches.ts";
import {
  type CheckedHost,
  type CheckedSwitch,
  type Finding,
  fine,
  type NodeCheck,
  problem,
  skipped,
} from "./node-check.ts";

/** A check with what it found. */
export interface Examined {
  readonly name: string;
  readonly findings: readonly Finding[];
}

const HOST_CHECKS = [userCheck, versionsCheck, hugepagesCheck];
const NODE_CHECKS: readonly NodeCheck[] = [
  rootCheck,
  kubeletCheck,
  daemonCheck,
  cniCheck,
  recordsCheck,
  switchCheck,
  permissionsCheck,
  selinuxCheck,
  leftoversCheck,
];
/** A switch that hangs does not answer any of its checks. */
const CHECK_MS = 5_000;

/** Checks a node, one after the other; what needs the configuration is left out where it cannot be read. */
export async function examine(host: CheckedHost, signal: AbortSignal): Promise<readonly Examined[]> {
  const examined: Examined[] = [];
  for (const { name, check } of HOST_CHECKS)
    examined.push({ name, findings: await tried(() => check(host)) });
  const found = await findConfig(host.places);
  const file = host.places.config ?? CONFIG_FILE;
  if ("problem" in found) {
    const cure =
      "outside of the daemon's container, copy its ConfigMap to a file and name that with --config";
    examined.push({ name: "configuration", findings: [problem(found.problem, cure)] });
    const left = [skipped("it takes the configuration")];
    return [...examined, ...NODE_CHECKS.map(({ name }) => ({ name, findings: left }))];
  }
  const { config } = found;
  examined.push({ name: "configuration", findings: [fine(`${file}, node ${config.node}`)] });
  const switches = openSwitches(config);
  try {
    for (const { name, check } of NODE_CHECKS) {
      const limit = within(signal, CHECK_MS);
      examined.push({ name, findings: await tried(() => check({ config, switches, host }, limit)) });
    }
  } finally {
    for (const dataplane of new Set(switches.map((one) => one.dataplane))) await dataplane.close();
  }
  return examined;
}

/** One connection to each switch, however many pools stand for it. */
function openSwitches(config: { readonly node: string; readonly pools: readonly CheckedSwitch["pool"][] }) {
  const opened: CheckedSwitch[] = [];
  const options = { node: config.node, logger: silentLogger, ownersOf: () => [] };
  for (const pool of config.pools) {
    const same = opened.find((one) => isSameSwitch(one.pool.dataplane, pool.dataplane));
    opened.push({ pool, dataplane: same?.dataplane ?? openDataplane(pool.dataplane, options) });
  }
  return opened;
}

async function tried(check: () => Promise<readonly Finding[]>): Promise<readonly Finding[]> {
  try {
    return await check();
  } catch (error) {
    return [problem(`it could not be checked: ${describeThrown(error)}`, "run it as root on the node")];
  }
}
