import { SUPPORTED_CNI_VERSIONS } from "../../src/names/cni-version.ts";
import { caseName, SITUATIONS, VERBS } from "./cni-conformance.ts";

const INTRODUCTION = `# What CNI answers, verb by verb

This table is generated and checked by \`test/integration/cni-conformance.test.ts\`, on a network with an IPAM plugin. Each case
also compares the resulting attachments in the records, in the switch and at the IPAM plugin.

- *After a crash*: the daemon was killed in the middle of the same verb.
- *Concurrent*: four requests at once, beside another container's ADD.
- *Garbage input*: no JSON, wrong versions, names and values, missing or hostile environment. The table lists the error codes
  of the cases; DEL succeeds with any stdin.

*Repeated* and *concurrent* calls all get the same answer. [cni.md](cni.md) explains the codes.

| verb | situation | ${SUPPORTED_CNI_VERSIONS.join(" | ")} |
| --- | --- |${" --- |".repeat(SUPPORTED_CNI_VERSIONS.length)}
`;

/** The table for people, from outcomes in the order of {@link conformanceCases}. */
export function conformanceTable(outcomes: ReadonlyMap<string, string>): string {
  const rows = VERBS.flatMap((verb) =>
    SITUATIONS.map((situation) => {
      const cells = SUPPORTED_CNI_VERSIONS.map((version) =>
        outcomes.get(caseName({ verb, version, situation })),
      );
      return `| ${verb} | ${situation} | ${cells.join(" | ")} |`;
    }),
  );
  return `${INTRODUCTION}${rows.join("\n")}\n`;
}
