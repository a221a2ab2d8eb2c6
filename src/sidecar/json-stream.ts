/**
 * The objects of a text that holds several, one behind the other, each as its text. What is not closed at the end is
 * returned unchanged, for a parser to complain about.
 */
export function splitJsonStream(text: string): string[] {
  const parts: string[] = [];
  let start = 0;
  let depth = 0;
  let isInString = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (isInString) {
      if (character === "\\") at++;
      else if (character === '"') isInString = false;
    } else if (character === '"') isInString = true;
    else if (character === "{" || character === "[") depth++;
    else if (character === "}" || character === "]") {
      depth--;
      if (depth > 0) continue;
      parts.push(text.slice(start, at + 1));
      start = at + 1;
      depth = 0;
    }
  }
  const rest = text.slice(start);
  return rest.trim() === "" ? parts : [...parts, rest];
}
