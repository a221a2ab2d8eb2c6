import type { RoutedSettings } from "../../config/port-settings.ts";
import { Failure } from "../../failure/failure.ts";
import type { Answered } from "../../protocols/vpp-api/call.ts";
import { addTable, dumpTables } from "../../protocols/vpp-api/routing-messages.ts";
import type { VppRequests } from "./requests.ts";

/**
 * Most tables that a VPP gets from us: each holds some 320 KiB of VPP's heap for IPv4 before it has a route. They are
 * never deleted: VPP would delete with a table what others have put there, and does not say whether it did.
 */
export const MAX_TABLES = 256;
/** Begins the names of tables that networks with `createVrf` made, on whatever node's daemon. */
const MADE = "kvu1:";

/**
 * Sees to it that the table is there for both address families, and makes it where the network asks for that.
 * @throws Failure vrf-missing, dataplane-misconfigured where networks have made too many
 */
export async function requireVrf(
  vpp: VppRequests,
  { vrf, createVrf }: Pick<RoutedSettings, "vrf" | "createVrf">,
  port: string,
): Promise<void> {
  const tables = await readTables(vpp);
  const failure = whyMissing(tables, vrf);
  if (failure === undefined) return;
  if (createVrf !== true) throw failure;
  const made = new Set(tables.filter(({ name }) => name.startsWith(MADE)).map(({ table_id }) => table_id));
  if (made.size >= MAX_TABLES && !made.has(vrf)) {
    throw new Failure({
      code: "dataplane-misconfigured",
      what: `VPP has ${MAX_TABLES} tables that networks with createVrf made, and gets no other for VRF ${vrf}`,
      where: `port ${port}`,
      fix: `${byExec(vrf)}; the tables of networks that are gone go with a restart of VPP`,
    });
  }
  const order = vpp.orders(`port ${port}`);
  const table = { table_id: vrf, name: tableName(vrf) };
  await Promise.all(
    [false, true].map((is_ip6) => order(addTable, { is_add: true, table: { ...table, is_ip6 } })),
  );
}

/** A Failure, not thrown, where the table is not there for one of the address families. */
export async function whyVrfMissing(vpp: VppRequests, vrf: number): Promise<Failure | undefined> {
  return whyMissing(await readTables(vpp), vrf);
}

/** The name of a table that a network made. */
export function tableName(vrf: number): string {
  return `${MADE}vrf:${vrf}`;
}

type Table = Answered<typeof dumpTables>["table"];

async function readTables(vpp: VppRequests): Promise<readonly Table[]> {
  return (await vpp.dump(dumpTables, {})).map(({ table }) => table);
}

function whyMissing(tables: readonly Table[], vrf: number): Failure | undefined {
  const isThere = (is_ip6: boolean) => tables.some((one) => one.table_id === vrf && one.is_ip6 === is_ip6);
  const families = [...(isThere(false) ? [] : ["IPv4"]), ...(isThere(true) ? [] : ["IPv6"])];
  if (families.length === 0) return undefined;
  const others = [...new Set(tables.map(({ table_id }) => table_id))].sort((one, other) => one - other);
  return new Failure({
    code: "vrf-missing",
    what: `there is no table ${vrf} for ${families.join(" and ")} in VPP`,
    where: `it has ${others.join(", ")}`,
    fix: `${byExec(vrf)}, or let the network make it`,
  });
}

function byExec(vrf: number): string {
  return `make it in the file that VPP's startup.conf executes (ip table add ${vrf}; ip6 table add ${vrf})`;
}
