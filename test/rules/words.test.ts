import { globSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";

/** Words and phrases that we do not use, and what to write instead. */
const BANNED: readonly (readonly [pattern: RegExp, instead: string])[] = [
  [/\banew\b/i, "again, or a verb with re-: recreate, reconnect, restart"],
  [/\bwho(m)?ever\b/i, "the actor: the pod, the administrator, an attacker"],
  [/\b(some|no|every)body\b(?!:)|\bsomeone\b/i, "the actor: another program, no process, all users"],
  [/(?<!there )\bis none\b|\bnone of ours\b/i, "a sentence with not or no"],
  [/\bhoard/i, "entry limit"],
  [/\bsanction/i, "limit, lock out"],
  [/\b(the|our|whose) house\b|\bof the house\b/i, "project"],
  [/\brooms? of src\b|\bwhere there is room\b/i, "module; space, capacity"],
  [/\btend(s|ed|ing)? (it|them|the|a)\b/i, "check, repair"],
  [/\bmend(s|ed|ing)?\b/i, "repair, fix"],
  [
    /\bby turns\b|\b(its|whose|their|one's|others'|next|another) turns?\b|\btakes? turns\b/i,
    "lock, order; alternate",
  ],
  [/\b(no|the) news\b|\bwhat is new\b|\bPortNews\b/i, "event, change; changelog"],
  [/\bcalled[- ]off\b/i, "superseded"],
  [/\bunfit\b|\bis not fit\b/i, "misconfigured"],
  [/\bin vain\b/i, "fails"],
  [/\b(is|are|was|were) told\b|\btells? it\b/i, "learns, is notified, receives; reports"],
  [/\b(by|of|the) (kubelet|daemon|network|node|switch|vm)'s (own )?word\b/i, "according to, configured by"],
  [/\bword is all\b|\bown word\b/i, "source, setting"],
  [/\bthe look at\b|\ba look at\b|\bat the (first|next) look\b/i, "check, read"],
  [/\bdies away\b|\blies there\b|\bstands there\b/i, "is, exists"],
];

const TOP = resolve(import.meta.dirname, "../..");
const FILES = globSync(
  [
    "*.md",
    ".github/**/*.{md,yml}",
    "docs/**/*.md",
    "test/**/*.md",
    "src/**/*.{ts,c,h,md,html}",
    "scripts/**/*.ts",
    "test/**/*.{ts,c,sh}",
    "deploy/**/*.{yaml,tpl,txt,md,json}",
    "deploy/image/Dockerfile",
  ],
  { cwd: TOP },
).filter((file) => file !== "test/rules/words.test.ts");

describe("words", () => {
  it.each(BANNED)("%s is not used (instead: %s)", (pattern) => {
    const found = FILES.flatMap((file) =>
      readFileSync(resolve(TOP, file), "utf8")
        .split("\n")
        .flatMap((line, index) => (pattern.test(line) ? [`${file}:${index + 1}: ${line.trim()}`] : [])),
    );
    expect(found).toEqual([]);
  });
});
