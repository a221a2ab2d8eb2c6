import type { Layout, PlacedInterface, PlacedPod } from "../picture/layout.ts";
import { type DrawnSegments, segmentsOf } from "../picture/segments.ts";
import { portWords, trafficWords } from "../picture/words.ts";
import { svg } from "./elements.ts";
import { fitText, measure, PLAIN, SMALL } from "./fit-text.ts";
import { markAt } from "./marks.ts";

/** The lines of an interface from its pod to its bridge, with its port. @param rate packets a second */
export function drawRow(
  { columns }: Layout,
  pod: PlacedPod,
  { of, y, bridgeY }: PlacedInterface,
  rate: number | undefined,
): SVGElement {
  const drawn = segmentsOf(of);
  const { socket, port, bridge } = columns;
  const right = pod.x + pod.width;
  const lines: SVGElement[] = [
    line(drawn, "socket", `M${right} ${y}H${socket - 7}`),
    svg("circle", { class: `socket ${of.socket}`, cx: socket, cy: y, r: 6 }),
  ];
  if (of.portName !== undefined) {
    lines.push(line(drawn, "peer", `M${socket + 7} ${y}H${port.x}`), drawPort(of, port, y));
    const from = port.x + port.width;
    if (bridgeY !== undefined) lines.push(line(drawn, "port", curve(from, y, bridge.x, bridgeY)));
  }
  const places = {
    socket: (right + socket - 6) / 2,
    peer: (socket + port.x) / 2 + 2,
    port: (port.x + port.width + bridge.x) / 2,
  };
  if (bridgeY === y && drawn.mark?.at !== "port") {
    const from = port.x + port.width;
    const traffic = roomiest(trafficWords(rate, of.port?.dropped ?? 0), bridge.x - from - 8);
    const place = { class: "note", x: places.port, y: y - 6, "text-anchor": "middle" };
    if (traffic !== "") lines.push(svg("text", place, traffic));
  }
  if (drawn.mark !== undefined) lines.push(drawMark(drawn.mark, places[drawn.mark.at], y));
  return svg("g", { class: `row ${of.health}` }, ...lines);
}

/** The first of some texts that has room; the last needs the least. */
function roomiest(texts: readonly string[], width: number): string {
  return texts.find((text) => measure(text, SMALL) <= width) ?? "";
}

function line({ states }: DrawnSegments, at: keyof DrawnSegments["states"], d: string): SVGElement {
  return svg("path", { class: `line ${states[at]}`, d });
}

function curve(x1: number, y1: number, x2: number, y2: number): string {
  if (y1 === y2) return `M${x1} ${y1}H${x2}`;
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}

/** The state of a port is shown beside its name where both fit; its title always has it. */
function drawPort(of: PlacedInterface["of"], { x, width }: Layout["columns"]["port"], y: number): SVGElement {
  const state = of.port === undefined ? "gone" : of.port.failed ? "failed" : of.port.link;
  const name = fitText(of.portName ?? "", width - 20, PLAIN);
  const note = shortState(of);
  const isRoomy = measure(name, PLAIN) + measure(note, SMALL) + 30 <= width;
  return svg(
    "g",
    { class: `port ${state}` },
    svg("title", {}, portWords(of)),
    svg("rect", { class: "card", x, y: y - 13, width, height: 26, rx: 6 }),
    svg("text", { class: "name", x: x + 10, y: y + 4 }, name),
    isRoomy
      ? svg("text", { class: "note", x: x + width - 10, y: y + 4, "text-anchor": "end" }, note)
      : undefined,
  );
}

/** The few letters that a port's box has room for. */
function shortState({ port, portKnown }: PlacedInterface["of"]): string {
  if (!portKnown) return "?";
  if (port === undefined) return "missing";
  if (port.failed) return "failed";
  return port.queuePairs === undefined ? port.link : `${port.link} · ${port.queuePairs}q`;
}

/** Where the chain breaks: the mark and the link's name. */
function drawMark({ name, health }: NonNullable<DrawnSegments["mark"]>, x: number, y: number): SVGElement {
  const width = measure(name, SMALL) + 34;
  return svg(
    "g",
    { class: `break ${health}` },
    svg("rect", { class: "pill", x: x - width / 2, y: y - 11, width, height: 22, rx: 11 }),
    markAt(health, x - width / 2 + 13, y, 14),
    svg("text", { x: x - width / 2 + 24, y: y + 4 }, name),
  );
}
