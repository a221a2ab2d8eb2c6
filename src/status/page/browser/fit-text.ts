import { svg } from "./elements.ts";

const FAMILY = getComputedStyle(document.body).fontFamily;

/** Fonts of the picture, as CSS writes them. */
export const BOLD = `600 14px ${FAMILY}`;
export const PLAIN = `13px ${FAMILY}`;
export const SMALL = `12px ${FAMILY}`;

const context = document.createElement("canvas").getContext("2d");

/**
 * A text no wider than so many pixels, cut in its middle where it is: names of pods differ at both ends.
 * @param font as CSS writes it
 */
export function fitText(text: string, width: number, font: string): string {
  const fits = (one: string) => measure(one, font) <= width;
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

/** Pixels that a text takes. */
export function measure(text: string, font: string): number {
  if (context === null) return text.length * 7;
  context.font = font;
  return context.measureText(text).width;
}

/** A text of the picture, cut to a width. */
export function words(
  kind: string,
  x: number,
  y: number,
  text: string,
  { width, font, end = false }: { readonly width: number; readonly font: string; readonly end?: boolean },
): SVGElement {
  return svg("text", { class: kind, x, y, "text-anchor": end ? "end" : "start" }, fitText(text, width, font));
}
