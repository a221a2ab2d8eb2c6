import { Failure } from "../../src/failure/failure.ts";
import { connectOpenflow } from "../../src/protocols/openflow/connection.ts";
import { listFlows } from "../../src/protocols/openflow/flow.ts";
import { connectOvsdb } from "../../src/protocols/ovsdb/connection.ts";
import { connectVpp } from "../../src/protocols/vpp-api/connection.ts";
import { ANY_INDEX, dumpBridgeDomains } from "../../src/protocols/vpp-api/messages.ts";

/** One request to a misbehaving peer, in a process of its own: prints how it failed and how much memory it used. */
const [protocol = "", path = ""] = process.argv.slice(2);
const signal = AbortSignal.timeout(60_000);

async function ask(): Promise<unknown> {
  switch (protocol) {
    case "ovsdb":
      return (await connectOvsdb({ path }, signal)).request("transact", ["Open_vSwitch"], signal);
    case "openflow": {
      const connection = await connectOpenflow({ path }, signal);
      return connection.exchange([listFlows({ cookie: 0n, cookieMask: 0n })], signal);
    }
    case "vpp": {
      const connection = await connectVpp({ path }, signal);
      return connection.dump(dumpBridgeDomains, { bd_id: ANY_INDEX, sw_if_index: ANY_INDEX }, signal);
    }
    default:
      throw new TypeError(`${protocol} is no protocol`);
  }
}

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
}, 20);
const outcome = await ask().catch((thrown: unknown) => thrown);
most = Math.max(most, heldMib());
const { code, message } = outcome instanceof Failure ? outcome : { code: "none", message: "" };
process.stdout.write(JSON.stringify({ code, message, growthMib: most - before }), () => process.exit());
