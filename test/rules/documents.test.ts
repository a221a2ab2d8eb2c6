import { basename } from "node:path";
import { describe, expect, it } from "vitest";
import { commandFaults } from "./documents/command-faults.ts";
import { dataFaults } from "./documents/data-faults.ts";
import { filesBelow, projectDocuments } from "./documents/document.ts";
import { linkFaults, unreachable } from "./documents/link-faults.ts";
import { nameFaults } from "./documents/name-faults.ts";

const documents = projectDocuments();

describe("what users read", () => {
  it.each(documents)("$file links to what exists", (document) => {
    expect(linkFaults(document, documents)).toEqual([]);
  });

  it.each(documents)("$file has commands that exist, with flags that they take", (document) => {
    expect(commandFaults(document)).toEqual([]);
  });

  it.each(documents)("$file names keys, metrics, codes and files that exist", (document) => {
    expect(nameFaults(document)).toEqual([]);
  });

  it.each(documents)("$file has YAML and JSON that their readers take", (document) => {
    expect(dataFaults(document)).toEqual([]);
  });

  it("shows every picture of docs/images", () => {
    const shown = documents.flatMap(({ targets }) => targets.map((target) => basename(target)));
    expect(filesBelow("docs/images").filter((file) => !shown.includes(basename(file)))).toEqual([]);
  });

  it("can be found from README.md", () => {
    expect(unreachable(documents, "README.md"), "link it from docs/README.md").toEqual([]);
  });
});
