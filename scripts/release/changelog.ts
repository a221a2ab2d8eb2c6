import { Failure } from "../../src/failure/failure.ts";

const WHERE = "CHANGELOG.md";

/** One release of a changelog that is kept as https://keepachangelog.com/en/1.1.0/ says. */
export interface ChangelogSection {
  /** `Unreleased`, or a version. */
  readonly title: string;
  /** `2026-01-31`; none while it is unreleased. */
  readonly date: string | undefined;
  readonly body: string;
}

/** The sections of a changelog, the newest first. */
export function changelogSections(text: string): readonly ChangelogSection[] {
  const withoutLinks = text.replace(/^\[[^\]]+\]: .*$/gm, "");
  return withoutLinks
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const [heading = "", ...lines] = section.split("\n");
      const [, title = heading.trim(), date] =
        /^\[([^\]]+)\](?: - (\d{4}-\d\d-\d\d))?$/.exec(heading.trim()) ?? [];
      return { title, date, body: lines.join("\n").trim() };
    });
}

/**
 * What the changelog says of the release that a tag names.
 * @param tag `v` and the version
 * @throws Failure invalid-request where the tag is not of this version, or the changelog has no dated section of it
 */
export function releaseNotes(tag: string, version: string, changelog: string): string {
  if (tag !== `v${version}`) {
    throw new Failure({
      code: "invalid-request",
      what: `the tag is ${JSON.stringify(tag)}, package.json has the version ${version}`,
      fix: `tag the commit with v${version}, or change the version first (docs/releasing.md)`,
    });
  }
  const section = changelogSections(changelog).find(({ title }) => title === version);
  if (section?.date === undefined || section.body === "") {
    throw new Failure({
      code: "invalid-request",
      what: `there is no section of ${version} with a date and a text`,
      where: WHERE,
      fix: `call what is under Unreleased [${version}] - and the day`,
    });
  }
  return section.body;
}
