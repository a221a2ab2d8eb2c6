// Addresses: the IPAM agent of this node, asked on its own status socket.
import { addressCount, addressProblems, leakTitle, leakWords } from "../../status/address-words.ts";
import {
  type LeakedAddresses,
  type NodeAddresses,
  nodeAddressesShape,
} from "../../status/addresses-shape.ts";
import { agentPlace, askAgent, isNotEnabled } from "../../status/status-client.ts";
import { age, plural } from "../../status/words.ts";
import { type CheckedHost, type Finding, fine, type NodeCheck, problem, warning } from "./node-check.ts";

/** An address that leaked is collected within this time, if the API server answers. */
const LONG_MS = 10 * 60_000;

/** The IPAM agent, where the node has one. */
export const addressesCheck: NodeCheck = async ({ config, host }) => {
  const usual = agentPlace(config);
  const place = { ...usual, statusSocket: host.places.agentSocket ?? usual.statusSocket };
  try {
    return checkAddresses(await askAgent(place, "/v1/addresses", nodeAddressesShape), host);
  } catch (error) {
    if (isNotEnabled(error, place)) return [fine("off")];
    throw error;
  }
};

function checkAddresses(addresses: NodeAddresses, { version: own }: CheckedHost): readonly Finding[] {
  const { version, startedAt, at, blocks, leftOut, leaks } = addresses;
  const used = blocks.reduce((sum, block) => sum + block.used, 0);
  const count = plural(blocks.length + leftOut.blocks, "block");
  const findings = [
    fine(`agent of release ${version}, up ${age(at - startedAt)}, ${count}, ${addressCount(used)} in use`),
  ];
  if (version !== own) {
    const what = `this program is of release ${own}`;
    findings.push(warning(what, "run the one of the agent's own image"));
  }
  for (const { verdict, what, cure } of addressProblems(addresses))
    findings.push(verdict === "problem" ? problem(what, cure) : warning(what, cure));
  const long = leaks.filter((leak) => isHeldLong(leak, at));
  const [first] = long;
  if (first !== undefined) {
    const more = long.length === 1 ? "" : `, and ${plural(long.length - 1, "more interface")}`;
    const what = `leaked: ${leakTitle(first)}${more}: ${leakWords(first)}`;
    findings.push(warning(what, "vhostuserctl ip leaks lists them"));
  }
  return findings;
}

/** Where the network namespace still exists it is not known for how long the pod has been gone. */
function isHeldLong({ why, goneAt }: LeakedAddresses, at: number): boolean {
  if (why === "netns-there" || why === "netns-unknown") return true;
  return goneAt !== undefined && at - goneAt > LONG_MS;
}
