const context = document.createElement("canvas").getContext("2d");

/**
 * A text no wider than so many pixels, cut in its middle where it is: names of pods differ at both ends.
 * @param font as CSS writes it
 */
export function fitText(text: string, width: number, font: string): string {
  if (context === null) return text;
  context.font = font;
  const fits = (one: string) => (context?.measureText(one).width ?? 0) <= width;
  if (fits(text)) return text;
  // By characters as people count them: half a surrogate would be drawn as a box.
  const characters = [...text.slice(0, 400)];
  let [low, high] = [0, characters.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (fits(shortened(characters, middle))) low = middle;
    else high = middle - 1;
  }
  return shortened(characters, low);
}

function shortened(characters: readonly string[], keep: number): string {
  const tail = Math.floor(keep / 2);
  const end = tail === 0 ? [] : characters.slice(-tail);
  return [...characters.slice(0, keep - tail), "…", ...end].join("");
}
