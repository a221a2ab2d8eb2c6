import type { Health } from "../page-shape.ts";
import { svg } from "./elements.ts";

/** What a mark says; each has a shape of its own, so that none needs its colour. */
export type Mark = Health | "unknown" | "none";

/** Outlines within 16 by 16: a disc, a triangle, an octagon, a dotted disc. */
const OUTLINES: Readonly<Record<Mark, string>> = {
  healthy: "M8 .8a7.2 7.2 0 1 1 0 14.4A7.2 7.2 0 0 1 8 .8z",
  degraded:
    "M8 .9c.5 0 .9.3 1.2.7l6.5 11.4c.5.9-.1 2-1.2 2h-13c-1.1 0-1.7-1.1-1.2-2l6.5-11.4c.3-.4.7-.7 1.2-.7z",
  broken: "M5.1.8h5.8l4.3 4.3v5.8l-4.3 4.3h-5.8l-4.3-4.3v-5.8z",
  unknown: "M8 .8a7.2 7.2 0 1 1 0 14.4A7.2 7.2 0 0 1 8 .8z",
  none: "M8 3.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9z",
};
const SIGNS: Readonly<Record<Mark, string>> = {
  healthy: "M4.7 8.3l2.3 2.3 4.4-5",
  degraded: "M8 5.7v4m0 2.2v.1",
  broken: "M5.5 5.5l5 5m0-5l-5 5",
  unknown: "M6.2 6.3c.1-2.4 3.7-2.2 3.6.1 0 1.5-1.8 1.5-1.8 2.9m0 2v.1",
  none: "",
};

/** The mark as an icon; the words beside it say the same. */
export function markIcon(mark: Mark, size = 16): SVGSVGElement {
  return svg(
    "svg",
    { viewBox: "0 0 16 16", width: size, height: size, class: `mark ${mark}`, "aria-hidden": "true" },
    svg("path", { class: "outline", d: OUTLINES[mark] }),
    svg("path", { class: "sign", d: SIGNS[mark] }),
  );
}
