import type { PagePod } from "../page-shape.ts";
import type { Layout, PlacedBridge, PlacedPod } from "../picture/layout.ts";
import { plural, switchWords } from "../picture/words.ts";
import { svg } from "./elements.ts";
import { BOLD, fitText, measure, PLAIN, SMALL, words } from "./fit-text.ts";
import { type Mark, markAt } from "./marks.ts";

/** A tall bridge says its name again and again. */
const NAME_EVERY = 560;

/** What the columns are. */
export function drawHeadings({ columns: { pod, socket, port, bridge } }: Layout): SVGElement[] {
  const heading = (text: string, x: number, anchor = "start") =>
    svg("text", { class: "heading", x, y: 13, "text-anchor": anchor }, text);
  return [
    heading("Pod, its interfaces and networks", pod.x),
    heading("Socket", socket, "middle"),
    heading("Port", port.x),
    heading("Bridge", bridge.x),
  ];
}

/** The part of a pod that is a button. */
export function drawCard({ of, x, y, width, height }: PlacedPod): SVGElement[] {
  const card = svg("rect", { class: "card", x, y, width, height, rx: 10 });
  return [svg("title", {}, `${of.namespace}/${of.name}`), card];
}

/** What is written on a pod. */
export function drawFace({ of, x, y, width, height, rows }: PlacedPod): SVGElement {
  return svg(
    "g",
    { class: of.health },
    svg("rect", { class: "stripe", x: x + 1, y: y + 10, width: 4, height: height - 20, rx: 2 }),
    words("namespace", x + 18, y + 21, `${of.namespace} /`, { width: width * 0.3, font: SMALL }),
    namePart(of, x, y, width),
    markAt(of.health, x + width - 20, y + 17),
    ...rows.map((row) =>
      svg(
        "g",
        {},
        words("interface", x + 18, row.y + 4, row.of.name, { width: width * 0.45, font: PLAIN }),
        words("network", x + width - 16, row.y + 4, row.of.network ?? row.of.device, {
          width: width * 0.4,
          font: SMALL,
          end: true,
        }),
      ),
    ),
  );
}

function namePart({ namespace, name }: PagePod, x: number, y: number, width: number): SVGElement {
  const shownNamespace = fitText(`${namespace} /`, width * 0.3, SMALL);
  const offset = measure(shownNamespace, SMALL) + 5;
  return words("name", x + 18 + offset, y + 21, name, { width: width - offset - 62, font: BOLD });
}

/** A bridge of a switch. */
export function drawBridge({ of, x, y, width, height, ports }: PlacedBridge): SVGElement {
  const mark: Mark = of.ready === undefined ? "unknown" : of.ready ? "healthy" : "broken";
  const state = of.ready === undefined ? "no pool uses it" : of.ready ? "ready" : "not ready";
  const copies = Math.max(1, Math.floor(height / NAME_EVERY));
  const notes = [...switchWords(of), `${plural(ports, "port")}, ${state}`];
  return svg(
    "g",
    { class: `bridge ${mark}` },
    svg("title", {}, `${of.name}: ${of.reason ?? switchWords(of).join(", ")}`),
    svg("rect", { class: "card", x, y, width, height, rx: 10 }),
    svg("rect", { class: "bus", x: x + 10, y: y + 10, width: 6, height: height - 20, rx: 3 }),
    ...Array.from({ length: copies }, (_, copy) => {
      const top = y + (copy * height) / copies;
      return svg(
        "g",
        {},
        words("name", x + 30, top + 28, of.name, { width: width - 72, font: BOLD }),
        markAt(mark, x + width - 20, top + 24),
        ...notes.map((note, index) =>
          words("note", x + 30, top + 47 + index * 17, note, { width: width - 42, font: SMALL }),
        ),
      );
    }),
  );
}
