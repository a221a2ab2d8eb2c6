import { afterEach, beforeEach, expect, it } from "vitest";
import { startVppInDirectory, type VppInDirectory } from "../../../test/stand-in/vpp/vpp-in-directory.ts";
import { connectVpp, type VppConnection } from "../../protocols/vpp-api/connection.ts";
import { addTable, dumpTables } from "../../protocols/vpp-api/routing-messages.ts";
import { VppRequests } from "./requests.ts";
import { MAX_TABLES, requireVrf, tableName } from "./vrf.ts";

const soon = () => AbortSignal.timeout(30_000);

let node: VppInDirectory;
let connection: VppConnection;

beforeEach(async () => {
  node = await startVppInDirectory();
  connection = await connectVpp({ path: node.apiSocket }, soon());
});
afterEach(async () => {
  connection.close();
  await node.close();
  expect(node.vpp.violations).toEqual([]);
});

const need = (vrf: number) => requireVrf(new VppRequests(connection, soon()), { vrf, createVrf: true }, "p");
const make = (table_id: number, is_ip6: boolean, name = "") =>
  connection.request(addTable, { is_add: true, table: { table_id, is_ip6, name } }, soon());
const tables = async () => (await connection.dump(dumpTables, {}, soon())).map(({ table }) => table);

it("networks make tables up to a limit, which those of others do not count to", async () => {
  await make(9, true, "theirs");
  for (let vrf = 1001; vrf < 1000 + MAX_TABLES; vrf += 1) await make(vrf, true, tableName(vrf));
  await need(7);
  await need(7);
  await expect(need(8)).rejects.toMatchObject({ code: "dataplane-misconfigured", fix: /ip6 table add 8/ });
  const made = (await tables()).filter(({ name }) => name === tableName(7));
  expect(made.map(({ table_id, is_ip6 }) => [table_id, is_ip6])).toEqual([
    [7, false],
    [7, true],
  ]);
  // One that is ours for IPv6 alone is made whole, and one that is there is fine.
  await need(1001);
  await make(8, false);
  await make(8, true);
  await need(8);
});
