import { SUPPORTED_CNI_VERSIONS } from "../../src/names/cni-version.ts";
import { caseName, SITUATIONS, VERBS } from "./cni-conformance.ts";

const INTRODUCTION = `# What CNI answers, verb by verb

This table is generated and checked by \`src/cni/conformance.test.ts\`, on a network with an IPAM plugin. Each case
also compares the resulting attachments in the records, in the switch and at the IPAM plugin.

- *after a crash*: the daemon was killed in the middle of the same verb.
- *concurrent*: four requests at once, beside another container's ADD. They and repeated calls all get the same answer.
- *garbage input*: no JSON, wrong versions, names and values, missing or hostile environment. The table has the error codes
  of the cases, which [cni.md](cni.md#errors) explains; DEL succeeds with any stdin.

| verb | situation | ${SUPPORTED_CNI_VERSIONS.join(" | ")} |
| --- | --- |${" --- |".repeat(SUPPORTED_CNI_VERSIONS.length)}
`;

/** The table for people, from outcomes in the order of {@link conformanceCases}: a row for the situations of a verb with the same outcomes. */
export function conformanceTable(outcomes: ReadonlyMap<string, string>): string {
  const rows = VERBS.flatMap((verb) => {
    const situations = Map.groupBy(SITUATIONS, (situation) =>
      SUPPORTED_CNI_VERSIONS.map((version) => outcomes.get(caseName({ verb, version, situation }))).join(
        " | ",
      ),
    );
    return [...situations].map(([cells, names]) => `| ${verb} | ${names.join(", ")} | ${cells} |`);
  });
  return `${INTRODUCTION}${rows.join("\n")}\n`;
}
