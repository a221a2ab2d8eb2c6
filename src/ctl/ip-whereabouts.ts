import { readWhatIsLeft, type WhatIsLeft } from "../ipam-controller/whereabouts/what-is-left.ts";
import { type ApiServerPlace, openKubeApi } from "../kube-api/open-api.ts";
import { printable } from "../names/printable.ts";
import { plural } from "../status/words.ts";
import { type CommandContext, EXIT, type ExitCode, print } from "./command-context.ts";
import { type Cell, hang, paint, renderTable, type Screen } from "./terminal.ts";

/** Options of `vhostuserctl ip whereabouts`. */
export interface WhereaboutsOptions {
  readonly whereaboutsNamespace: string;
  readonly serviceAccount: string;
  readonly apiServer?: string;
}

/** Without `-o wide`. */
const SHOWN = 20;
const LIMIT_MS = 60_000;

/** `vhostuserctl ip whereabouts`. Exit code 1 where whereabouts cannot be removed yet. */
export async function runIpWhereabouts(
  context: CommandContext,
  { whereaboutsNamespace, serviceAccount, apiServer }: WhereaboutsOptions,
  place: ApiServerPlace | undefined,
): Promise<ExitCode> {
  const config = { serviceAccountDirectory: serviceAccount, apiServer };
  const { api } = openKubeApi("--api-server", config, place);
  try {
    const found = await readWhatIsLeft(api, whereaboutsNamespace, AbortSignal.timeout(LIMIT_MS));
    print(context, found, () => renderWhatIsLeft(context.screen, found, context.output === "wide"));
    return found.canBeRemoved ? EXIT.healthy : EXIT.problem;
  } finally {
    api.close();
  }
}

/** What is left of whereabouts, for people. */
export function renderWhatIsLeft(screen: Screen, unchecked: WhatIsLeft, isWide: boolean): string {
  const { networks, ranges, reservations, blocks, canBeRemoved } = printable(unchecked);
  const columns = [{ title: "RANGE" }, { title: "IMPORTED BY" }, { title: "LEFT", right: true }];
  const rows = ranges.map(({ range, pools, left }): Cell[] => [
    range,
    pools.join(", ") || "-",
    String(left.length),
  ]);
  const addresses = [...ranges.flatMap(({ left }) => left), ...reservations];
  const shown = addresses.slice(0, isWide ? undefined : SHOWN);
  const more = addresses.length - shown.length;
  const reasons = [
    ...networks.map((name) => `NetworkAttachmentDefinition ${name} names it`),
    ...(addresses.length === 0 ? [] : [`addresses that pods have from it: ${addresses.length}`]),
    ...(blocks.length === 0
      ? []
      : [
          `${plural(blocks.length, "AddressBlock")} of kind Foreign: each is deleted some minutes after its last address`,
        ]),
  ];
  return `${[
    ...(rows.length === 0 ? ["no ranges"] : renderTable(screen, columns, rows)),
    ...(shown.length === 0 ? [] : [""]),
    ...shown.map(({ address, pod }) => `  ${address}  ${pod}`),
    ...(more === 0 ? [] : [`  ${more} more: -o wide shows them`]),
    "",
    canBeRemoved
      ? paint(
          screen,
          "good",
          "whereabouts can be removed, unless a CNI configuration in a file of a node names it",
        )
      : paint(screen, "bold", "whereabouts cannot be removed yet:"),
    ...reasons.flatMap((reason) => hang(screen, 4, "  - ", reason)),
  ].join("\n")}\n`;
}
