import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import manifest from "../../package.json" with { type: "json" };
import { changelogSections, releaseNotes } from "./changelog.ts";

const TEXT = `# Changelog

## [Unreleased]

### Added
- something

## [1.1.0] - 2026-02-03

### Fixed
- a thing

## [1.0.0] - 2026-01-02

[Unreleased]: https://example.org/compare
`;

describe("the changelog", () => {
  it("has sections, the newest first, without the links at its end", () => {
    expect(changelogSections(TEXT)).toEqual([
      { title: "Unreleased", date: undefined, body: "### Added\n- something" },
      { title: "1.1.0", date: "2026-02-03", body: "### Fixed\n- a thing" },
      { title: "1.0.0", date: "2026-01-02", body: "" },
    ]);
  });

  it("gives a tag's release its text, and nothing to a tag of another version", () => {
    expect(releaseNotes("v1.1.0", "1.1.0", TEXT)).toBe("### Fixed\n- a thing");
    expect(() => releaseNotes("v1.1.0", "1.2.0", TEXT)).toThrow("package.json has the version 1.2.0");
    expect(() => releaseNotes("v1.0.0", "1.0.0", TEXT)).toThrow("no section of 1.0.0 with a date and a text");
    expect(() => releaseNotes("v1.2.0", "1.2.0", TEXT)).toThrow("no section of 1.2.0");
  });

  it("of this project is kept: Unreleased first, then releases by version and day, headings that are known", () => {
    const [first, ...released] = changelogSections(readFileSync("CHANGELOG.md", "utf8"));
    expect(first?.title).toBe("Unreleased");
    for (const { title, date } of released)
      expect([title, date]).toEqual([expect.stringMatching(/^\d+\.\d+\.\d+$/), expect.any(String)]);
    const dates = released.map(({ date }) => date ?? "");
    expect(dates).toEqual(dates.toSorted().reverse());
    // The version in package.json is the latest release's, or the next one's.
    if (released[0] !== undefined && first?.body === "") expect(released[0].title).toBe(manifest.version);
    const known = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];
    const headings = [...readFileSync("CHANGELOG.md", "utf8").matchAll(/^### (.*)$/gm)].map(
      ([, name]) => name ?? "",
    );
    expect(headings.length).toBeGreaterThan(0);
    expect(headings.filter((name) => !known.includes(name))).toEqual([]);
  });
});
