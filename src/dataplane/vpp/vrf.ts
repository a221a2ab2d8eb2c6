import type { RoutedSettings } from "../../config/port-settings.ts";
import { Failure } from "../../failure/failure.ts";
import type { Answered } from "../../protocols/vpp-api/call.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import { addTable, dumpTables } from "../../protocols/vpp-api/routing-messages.ts";
import { orders } from "./require-done.ts";

/**
 * Most tables that a VPP gets from us: each holds some 320 KiB of VPP's heap for IPv4 before it has a route. None is ever
 * deleted, for VPP would take away with it what others have put there, and tells nobody whether somebody did.
 */
export const MAX_TABLES = 256;
/** Begins the names of tables that networks with `createVrf` made, on whatever node's daemon. */
const MADE = "kvu1:";

/**
 * Sees to it that the table is there for both address families, and makes it where the network asks for that.
 * @throws Failure vrf-missing, dataplane-misconfigured where networks have made too many
 */
export async function requireVrf(
  connection: VppConnection,
  settings: Pick<RoutedSettings, "vrf" | "createVrf">,
  port: string,
  signal: AbortSignal,
): Promise<void> {
  const { vrf, createVrf } = settings;
  const tables = await readTables(connection, signal);
  const failure = whyMissing(tables, vrf);
  if (failure === undefined) return;
  if (createVrf !== true) throw failure;
  const made = new Set(tables.filter(({ name }) => name.startsWith(MADE)).map(({ table_id }) => table_id));
  if (made.size >= MAX_TABLES && !made.has(vrf)) throw tooMany(vrf, port);
  const order = orders(connection, `port ${port}`, signal);
  await Promise.all(
    [false, true].map((is_ip6) =>
      order(addTable, { is_add: true, table: { table_id: vrf, is_ip6, name: tableName(vrf) } }),
    ),
  );
}

/** A Failure, not thrown, where the table is not there for one of the address families. */
export async function whyVrfMissing(
  connection: VppConnection,
  vrf: number,
  signal: AbortSignal,
): Promise<Failure | undefined> {
  return whyMissing(await readTables(connection, signal), vrf);
}

/** The name of a table that a network made. */
export function tableName(vrf: number): string {
  return `${MADE}vrf:${vrf}`;
}

type Table = Answered<typeof dumpTables>["table"];

async function readTables(connection: VppConnection, signal: AbortSignal): Promise<readonly Table[]> {
  return (await connection.dump(dumpTables, {}, signal)).map(({ table }) => table);
}

function whyMissing(tables: readonly Table[], vrf: number): Failure | undefined {
  const lacking = [false, true].filter(
    (is_ip6) => !tables.some((table) => table.table_id === vrf && table.is_ip6 === is_ip6),
  );
  if (lacking.length === 0) return undefined;
  const families = lacking.map((is_ip6) => (is_ip6 ? "IPv6" : "IPv4")).join(" and ");
  const others = [...new Set(tables.map(({ table_id }) => table_id))].sort((one, other) => one - other);
  return new Failure({
    code: "vrf-missing",
    what: `there is no table ${vrf} for ${families} in VPP`,
    where: `it has ${others.join(", ")}`,
    fix: `make it in the file that VPP's startup.conf executes (ip table add ${vrf}; ip6 table add ${vrf}), or let the network make it`,
  });
}

function tooMany(vrf: number, port: string): Failure {
  return new Failure({
    code: "dataplane-misconfigured",
    what: `VPP has ${MAX_TABLES} tables that networks with createVrf made, and gets none for VRF ${vrf}`,
    where: `port ${port}`,
    fix: `make it in the file that VPP's startup.conf executes (ip table add ${vrf}; ip6 table add ${vrf}); the tables of networks that are gone go with a restart of VPP`,
  });
}
