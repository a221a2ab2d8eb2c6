import { Failure } from "../../failure/failure.ts";
import type { RoutedSettings } from "../../port-settings/port-settings.ts";
import type { VppConnection } from "../../vpp-api/connection.ts";
import { addTable, dumpTables } from "../../vpp-api/routing-messages.ts";
import { orders } from "./require-done.ts";

/**
 * Sees to it that the table is there for both address families, and makes it where the network asks for that.
 * @throws Failure vrf-missing
 */
export async function requireVrf(
  connection: VppConnection,
  settings: Pick<RoutedSettings, "vrf" | "createVrf">,
  port: string,
  signal: AbortSignal,
): Promise<void> {
  const failure = await whyVrfMissing(connection, settings.vrf, signal);
  if (failure === undefined) return;
  if (settings.createVrf !== true) throw failure;
  const order = orders(connection, `port ${port}`, signal);
  await Promise.all(
    [false, true].map((is_ip6) =>
      order(addTable, { is_add: true, table: { table_id: settings.vrf, is_ip6, name: "" } }),
    ),
  );
}

/** A Failure, not thrown, where the table is not there for one of the address families. */
export async function whyVrfMissing(
  connection: VppConnection,
  vrf: number,
  signal: AbortSignal,
): Promise<Failure | undefined> {
  const tables = (await connection.dump(dumpTables, {}, signal)).map(({ table }) => table);
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
