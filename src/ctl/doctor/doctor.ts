import type { DaemonConfig } from "../../config/schema.ts";
import { openDataplane } from "../../dataplane/open-dataplane.ts";
import { isSameSwitch } from "../../dataplane/switch-kind.ts";
import { toFailure } from "../../failure/failure.ts";
import { silentLogger } from "../../logging/logger.ts";
import { printable } from "../../names/printable.ts";
import { plural } from "../../status/words.ts";
import {
  CONFIG_FILE,
  type CommandContext,
  EXIT,
  type ExitCode,
  findConfig,
  print,
} from "../command-context.ts";
import { hang, paint, type Screen, type Tone } from "../terminal.ts";
import { addressesCheck } from "./address-checks.ts";
import { claimsCheck } from "./claim-checks.ts";
import { daemonCheck, leftoversCheck, recordsCheck, switchCheck } from "./daemon-checks.ts";
import {
  cniCheck,
  hugepagesCheck,
  kubeletCheck,
  numaCheck,
  rootCheck,
  userCheck,
  versionsCheck,
} from "./host-checks.ts";
import {
  type CheckedHost,
  type CheckedSwitch,
  type Finding,
  fine,
  type HostCheck,
  type NodeCheck,
  problem,
  skipped,
} from "./node-check.ts";
import { permissionsCheck, selinuxCheck } from "./permission-checks.ts";

/** `vhostuserctl doctor`. A warning alone leaves the node healthy. */
export async function runDoctor(context: CommandContext, host: CheckedHost): Promise<ExitCode> {
  const examined = await examine(host);
  print(context, examined, () => renderExamined(context.screen, examined));
  return count(examined, "problem") === 0 ? EXIT.healthy : EXIT.problem;
}

const MARKS: Readonly<Record<Finding["verdict"], { readonly text: string; readonly tone: Tone }>> = {
  ok: { text: "ok", tone: "good" },
  warning: { text: "WARNING", tone: "warning" },
  problem: { text: "PROBLEM", tone: "bad" },
  skipped: { text: "skipped", tone: "dim" },
};
const MARK = "PROBLEM".length;

/** What the checks found, for people. */
export function renderExamined(screen: Screen, unchecked: readonly Examined[]): string {
  const examined = printable(unchecked);
  const width = Math.max(...examined.map(({ name }) => name.length));
  const indent = width + MARK + 4;
  const lines = examined.flatMap(({ name, findings }) =>
    findings.flatMap(({ verdict, what, cure }, index) => {
      const { text, tone } = MARKS[verdict];
      const head = `${(index === 0 ? name : "").padEnd(width)}  ${paint(screen, tone, text)}${" ".repeat(MARK - text.length)}  `;
      const cured = cure === undefined ? [] : hang(screen, indent, " ".repeat(indent), `cure: ${cure}`);
      return [...hang(screen, indent, head, what), ...cured];
    }),
  );
  const [problems, warnings] = [count(examined, "problem"), count(examined, "warning")];
  const sum = [
    problems === 0 ? "no problems" : plural(problems, "problem"),
    ...(warnings === 0 ? [] : [plural(warnings, "warning")]),
  ].join(", ");
  return `${[...lines, "", paint(screen, problems === 0 ? "good" : "bad", sum)].join("\n")}\n`;
}

function count(examined: readonly Examined[], verdict: Finding["verdict"]): number {
  return examined.flatMap(({ findings }) => findings).filter((one) => one.verdict === verdict).length;
}

/** A check with what it found. */
export interface Examined {
  readonly name: string;
  readonly findings: readonly Finding[];
}

const HOST_CHECKS: Readonly<Record<string, HostCheck>> = {
  user: userCheck,
  versions: versionsCheck,
  hugepages: hugepagesCheck,
};
const NODE_CHECKS: Readonly<Record<string, NodeCheck>> = {
  root: rootCheck,
  NUMA: numaCheck,
  kubelet: kubeletCheck,
  daemon: daemonCheck,
  "CNI socket": cniCheck,
  records: recordsCheck,
  switch: switchCheck,
  claims: claimsCheck,
  addresses: addressesCheck,
  permissions: permissionsCheck,
  SELinux: selinuxCheck,
  leftovers: leftoversCheck,
};
/** A switch that hangs does not answer any of its checks. */
const CHECK_MS = 5_000;

/** Checks a node, one after the other; what needs the configuration is left out where it cannot be read. */
export async function examine(host: CheckedHost): Promise<readonly Examined[]> {
  const examined: Examined[] = [];
  for (const [name, check] of Object.entries(HOST_CHECKS))
    examined.push({ name, findings: await tried(() => check(host)) });
  const { config, problem: wrong } = await findConfig(host.places);
  if (config === undefined) {
    const cure =
      "outside of the daemon's container, copy its ConfigMap to a file and name that with --config";
    examined.push({ name: "configuration", findings: [problem(wrong ?? "", cure)] });
    const left = [skipped("needs a configuration that can be read")];
    return [...examined, ...Object.keys(NODE_CHECKS).map((name) => ({ name, findings: left }))];
  }
  const file = host.places.config ?? CONFIG_FILE;
  const cure = "correct it: the daemon does not start with it; the checks below use what is valid of it";
  const finding = wrong === undefined ? fine(`${file}, node ${config.node}`) : problem(wrong, cure);
  examined.push({ name: "configuration", findings: [finding] });
  const switches = openSwitches(config);
  try {
    for (const [name, check] of Object.entries(NODE_CHECKS)) {
      const limit = AbortSignal.timeout(CHECK_MS);
      examined.push({ name, findings: await tried(() => check({ config, switches, host }, limit)) });
    }
  } finally {
    for (const dataplane of new Set(switches.map((one) => one.dataplane))) await dataplane.close();
  }
  return examined;
}

/** One connection to each switch, however many pools use it. */
function openSwitches({ node, pools }: DaemonConfig): readonly CheckedSwitch[] {
  const opened: CheckedSwitch[] = [];
  const options = { node, logger: silentLogger, ownersOf: () => [] };
  for (const pool of pools) {
    const same = opened.find((one) => isSameSwitch(one.pool.dataplane, pool.dataplane));
    opened.push({ pool, dataplane: same?.dataplane ?? openDataplane(pool.dataplane, options) });
  }
  return opened;
}

/** What a check finds; what it throws is a problem. */
export async function tried(check: () => Promise<readonly Finding[]>): Promise<readonly Finding[]> {
  try {
    return await check();
  } catch (error) {
    const { what, where, fix = "run it as root on the node" } = toFailure(error);
    return [problem(where === undefined ? what : `${what} (${where})`, fix)];
  }
}
