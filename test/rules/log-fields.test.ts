import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { LOG_FIELDS } from "../../src/logging/fields.ts";

const SRC = join(import.meta.dirname, "../../src");
const CALL = /\blogger(?:\.(?:trace|debug|info|warn|error|fatal|child)|\[[^\]]+\])\(/g;

const sources = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter(
  (file) => file.endsWith(".ts") && !file.endsWith(".test.ts") && !file.startsWith("logging/"),
);

/**
 * Names of the fields that the logger calls in a text give, from object literals in the call or in a `const` of the
 * same file. What cannot be looked into is given as it is, in angle brackets; calls of functions of fields.ts
 * (`attachmentFields(record)`) are fine.
 */
function loggedFields(text: string): string[] {
  return [...text.matchAll(CALL)].flatMap((call) => {
    const argument = (topLevelParts(text.slice(call.index + call[0].length))[0] ?? "").trim();
    return /^["'`]/.test(argument) ? [] : fieldsOf(argument, text);
  });
}

function fieldsOf(expression: string, text: string): string[] {
  if (/^\w+Fields\(.*\)$/s.test(expression)) return [];
  if (/^\w+$/.test(expression)) {
    const literals = [...text.matchAll(new RegExp(`const ${expression} = \\{`, "g"))];
    if (literals.length === 0) return [`<${expression}>`];
    return literals.flatMap(({ index, 0: opening }) =>
      fieldsOf(`{${topLevelParts(text.slice(index + opening.length)).join(",")}}`, text),
    );
  }
  if (!expression.startsWith("{")) return [`<${expression}>`];
  return topLevelParts(expression.slice(1))
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .flatMap((part) =>
      part.startsWith("...")
        ? fieldsOf(part.slice("...".length), text)
        : [/^(\w+)\s*(?::|$)/.exec(part)?.[1] ?? `<${part}>`],
    );
}

/** Splits at the commas that are outside of all brackets and quotes, up to the bracket that closes it all. */
function topLevelParts(text: string): string[] {
  const parts = [""];
  let depth = 0;
  let quote = "";
  for (const [index, character] of [...text].entries()) {
    if (quote !== "") {
      if (character === quote && text[index - 1] !== "\\") quote = "";
    } else if ("\"'`".includes(character)) quote = character;
    else if ("([{".includes(character)) depth++;
    else if (")]}".includes(character)) {
      if (depth === 0) break;
      depth--;
    } else if (character === "," && depth === 0) {
      parts.push("");
      continue;
    }
    parts[parts.length - 1] += character;
  }
  return parts;
}

describe("log lines", () => {
  it.each([
    ["a literal", 'this.#options.logger.info({ pod: "a, b", reason }, "x, y")', ["pod", "reason"]],
    ["a level in brackets", 'logger[level](\n  { err: f({ a: 1, b }), },\n "x")', ["err"]],
    ["no fields", 'logger.warn("plain")', []],
    [
      "a function of fields.ts",
      'logger.info({ ...portFields(r), err }, "x"); logger.info(aFields(r), "x")',
      ["err"],
    ],
    ["a constant", 'const fields = { port: a };\nlogger.info({ ...fields, err }, "x")', ["port", "err"]],
    ["a name in quotes", 'logger.warn({ "a-b": 1 }, "x")', ['<"a-b": 1>']],
    ["something unknown", "logger.error(error)", ["<error>"]],
  ])("are understood by this test: %s", (_, text, fields) => {
    expect(loggedFields(text)).toEqual(fields);
  });

  it("are found by this test", () => {
    const found = sources.flatMap((file) => loggedFields(readFileSync(join(SRC, file), "utf8")));
    expect(found.length).toBeGreaterThan(40);
  });

  it("have no fields but those of src/logging/fields.ts", () => {
    const wrong = sources.flatMap((file) =>
      loggedFields(readFileSync(join(SRC, file), "utf8"))
        .filter((field) => !(field in LOG_FIELDS))
        .map((field) => `${file}: ${field}`),
    );
    expect(wrong, "use a name of src/logging/fields.ts, or add one there").toEqual([]);
  });
});
