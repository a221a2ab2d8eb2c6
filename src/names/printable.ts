/**
 * What a terminal would obey or a reader be misled by: control and format characters, such as marks that change the
 * direction of writing, and separators of lines. Line breaks and tabs become blanks beforehand: here a text is one line
 * until it is wrapped.
 */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** A text from outside (names, labels, errors) for a terminal: each unprintable character becomes its number. */
export function printableText(text: string): string {
  return text
    .replace(/[\t\n\r]+/g, " ")
    .replace(UNPRINTABLE, (one) => `\\u${one.codePointAt(0)?.toString(16).padStart(4, "0")}`);
}

/** The same of all texts in a value, the names of its members too. */
export function printable<Value>(value: Value): Value {
  return printed(value) as Value;
}

function printed(value: unknown): unknown {
  if (typeof value === "string") return printableText(value);
  if (Array.isArray(value)) return value.map(printed);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, of]) => [printableText(name), printed(of)]));
}
