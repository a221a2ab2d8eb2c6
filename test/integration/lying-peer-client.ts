import { Failure } from "../../src/failure/failure.ts";
import { listHeldDevices } from "../../src/kubelet/pod-resources.ts";
import { silentLogger } from "../../src/logging/logger.ts";
import { connectOpenflow } from "../../src/protocols/openflow/connection.ts";
import { listFlows } from "../../src/protocols/openflow/flow.ts";
import { connectOvsdb } from "../../src/protocols/ovsdb/connection.ts";
import { type Connection, shareConnection } from "../../src/protocols/shared-connection.ts";
import { connectVpp } from "../../src/protocols/vpp-api/connection.ts";
import { ANY_INDEX, dumpBridgeDomains } from "../../src/protocols/vpp-api/messages.ts";

/** One request to a misbehaving peer, in a process of its own: prints how it failed, what was logged and how much memory it used. */
const [protocol = "", path = ""] = process.argv.slice(2);
const signal = AbortSignal.timeout(60_000);
const logged: string[] = [];
const logger = { ...silentLogger, warn: (...[, line]: unknown[]) => void logged.push(String(line)) };

/** Over the connection that all callers in the daemon share. */
function shared<Of extends Connection>(connect: (end: AbortSignal) => Promise<Of>): Promise<Of> {
  const peer = { path, name: "the peer", whenUnreachable: "start it", whenSilent: "check it" };
  return shareConnection({ peer, connect, logger }).connection(signal);
}

const ASK: Readonly<Record<string, () => Promise<unknown>>> = {
  ovsdb: async () => {
    const connection = await shared((end) => connectOvsdb(path, end));
    return connection.request("transact", ["Open_vSwitch"], signal);
  },
  openflow: async () => {
    const connection = await shared((end) => connectOpenflow({ path }, end));
    return connection.exchange([listFlows({ cookie: 0n, cookieMask: 0n })], signal);
  },
  vpp: async () => {
    const connection = await shared((end) => connectVpp({ path }, end));
    return connection.dump(dumpBridgeDomains, { bd_id: ANY_INDEX, sw_if_index: ANY_INDEX }, signal);
  },
  // Its deadline is not what is tested.
  kubelet: () => listHeldDevices({ socketPath: path, signal, deadlineMs: 60_000 }),
};

/** What is held: garbage does not count. */
function heldMib(): number {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return (heapUsed + external) / (1024 * 1024);
}

const before = heldMib();
let most = before;
setInterval(() => {
  most = Math.max(most, heldMib());
}, 50);
const outcome = await ASK[protocol]?.().catch((thrown: unknown) => thrown);
most = Math.max(most, heldMib());
const { code, message } = outcome instanceof Failure ? outcome : { code: "none", message: "" };
process.stdout.write(JSON.stringify({ code, message, logged, growthMib: most - before }), () =>
  process.exit(),
);
