import type { PodView } from "../page-shape.ts";
import type { Layout, PlacedBridge, PlacedInterface, PlacedPod } from "../picture/layout.ts";
import { type DrawnSegments, segmentsOf } from "../picture/segments.ts";
import { plural, podLabel, portWords, switchWords } from "../picture/words.ts";
import { fill, setAttributes, svg } from "./elements.ts";
import { fitText } from "./fit-text.ts";
import { type Mark, markAt } from "./marks.ts";

const FAMILY = getComputedStyle(document.body).fontFamily;
const BOLD = `600 14px ${FAMILY}`;
const PLAIN = `13px ${FAMILY}`;
const SMALL = `12px ${FAMILY}`;
/** A tall bridge says its name again and again. */
const NAME_EVERY = 560;

/** The picture; pods in it are buttons. */
export class Picture {
  readonly #root = svg("svg", {
    id: "picture",
    role: "group",
    "aria-label": "Pods of this node; arrow keys go from one to the next",
  });
  readonly #onSelect: (pod: string) => void;
  readonly #headings = svg("g", { "aria-hidden": "true" });
  readonly #lines = svg("g", { "aria-hidden": "true" });
  readonly #bridges = svg("g", { "aria-hidden": "true" });
  readonly #pods = svg("g");
  /** What is written on the pods: what they are called for those who hear it is on the buttons. */
  readonly #faces = svg("g", { "aria-hidden": "true", class: "faces" });
  /** By pod's id. They are kept from one drawing to the next, or a reader would lose the focus at each. */
  readonly #buttons = new Map<string, SVGGElement>();
  #drawn = "";

  /** @param onSelect called with the pod's id */
  constructor(parent: Element, onSelect: (pod: string) => void) {
    this.#onSelect = onSelect;
    this.#root.append(this.#headings, this.#bridges, this.#lines, this.#pods, this.#faces);
    parent.append(this.#root);
    this.#root.addEventListener("keydown", (event) => this.#onKey(event));
  }

  /** Draws anew what differs from the last time. */
  draw(layout: Layout, selected: string | undefined): void {
    const now = JSON.stringify([layout, selected]);
    if (now === this.#drawn) return;
    this.#drawn = now;
    const { width, height, pods, bridges } = layout;
    setAttributes(this.#root, { viewBox: `0 0 ${width} ${height}`, width, height });
    fill(this.#bridges, ...bridges.map(drawBridge));
    fill(this.#headings, ...drawHeadings(layout));
    fill(this.#lines, ...pods.flatMap((pod) => pod.rows.map((row) => drawRow(layout, pod, row))));
    this.#drawPods(pods, selected);
    fill(this.#faces, ...pods.map(drawFace));
  }

  /** Puts the focus on a pod, or on the first. */
  focus(pod: string | undefined): void {
    const button = pod === undefined ? undefined : this.#buttons.get(pod);
    (button ?? this.#pods.querySelector<SVGGElement>("[tabindex='0']"))?.focus();
  }

  #drawPods(pods: readonly PlacedPod[], selected: string | undefined): void {
    const focused = document.activeElement;
    const shown = new Set(pods.map(({ of }) => of.id));
    for (const [id, button] of this.#buttons) {
      if (shown.has(id)) continue;
      button.remove();
      this.#buttons.delete(id);
    }
    const isInside = [...this.#buttons.values()].some((button) => button === focused);
    const entry = isInside ? undefined : (pods.find(({ of }) => of.id === selected) ?? pods[0])?.of.id;
    let before = this.#pods.firstElementChild;
    for (const pod of pods) {
      const button = this.#button(pod.of);
      setAttributes(button, {
        "aria-label": podLabel(pod.of),
        "aria-pressed": String(pod.of.id === selected),
        class: `pod ${pod.of.health}${pod.of.id === selected ? " selected" : ""}`,
        // One stop for the tabulator, arrows from there.
        ...(entry === undefined ? {} : { tabindex: pod.of.id === entry ? 0 : -1 }),
      });
      fill(button, ...drawCard(pod));
      if (button === before) before = before.nextElementSibling;
      else this.#pods.insertBefore(button, before);
    }
    if (isInside && focused !== document.activeElement)
      (focused as SVGGElement).focus({ preventScroll: true });
  }

  #button({ id }: PodView): SVGGElement {
    const known = this.#buttons.get(id);
    if (known !== undefined) return known;
    const button = svg("g", { role: "button", tabindex: -1, "data-pod": id });
    button.addEventListener("click", () => this.#onSelect(id));
    button.addEventListener("focus", () => {
      for (const other of this.#buttons.values())
        setAttributes(other, { tabindex: other === button ? 0 : -1 });
    });
    this.#buttons.set(id, button);
    return button;
  }

  #onKey(event: KeyboardEvent): void {
    const button = (event.target as Element).closest<SVGGElement>("[data-pod]");
    if (button === null || event.ctrlKey || event.altKey || event.metaKey) return;
    const buttons = [...this.#pods.children] as SVGGElement[];
    const at = buttons.indexOf(button);
    const targets: Readonly<Record<string, SVGGElement | undefined>> = {
      ArrowDown: buttons[at + 1],
      ArrowUp: buttons[at - 1],
      Home: buttons[0],
      End: buttons.at(-1),
    };
    if (event.key === "Enter" || event.key === " ") this.#onSelect(button.dataset["pod"] ?? "");
    else if (Object.hasOwn(targets, event.key)) targets[event.key]?.focus();
    else return;
    event.preventDefault();
  }
}

function drawHeadings({ columns: { pod, socket, port, bridge } }: Layout): SVGElement[] {
  const heading = (text: string, x: number, anchor = "start") =>
    svg("text", { class: "heading", x, y: 13, "text-anchor": anchor }, text);
  return [
    heading("Pod, its interfaces and networks", pod.x),
    heading("Socket", socket, "middle"),
    heading("Port", port.x),
    heading("Bridge", bridge.x),
  ];
}

function drawCard({ of, x, y, width, height }: PlacedPod): SVGElement[] {
  const card = svg("rect", { class: "card", x, y, width, height, rx: 10 });
  return [svg("title", {}, `${of.namespace}/${of.name}`), card];
}

function drawFace({ of, x, y, width, height, rows }: PlacedPod): SVGElement {
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

function namePart({ namespace, name }: PodView, x: number, y: number, width: number): SVGElement {
  const shownNamespace = fitText(`${namespace} /`, width * 0.3, SMALL);
  const offset = measure(shownNamespace, SMALL) + 5;
  return words("name", x + 18 + offset, y + 21, name, { width: width - offset - 62, font: BOLD });
}

function drawBridge({ of, x, y, width, height, ports }: PlacedBridge): SVGElement {
  const mark: Mark = of.ready === undefined ? "unknown" : of.ready ? "healthy" : "broken";
  const state = of.ready === undefined ? "no pool stands for it" : of.ready ? "ready" : "not ready";
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

function drawRow({ columns }: Layout, pod: PlacedPod, { of, y, bridgeY }: PlacedInterface): SVGElement {
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
  const dropped = of.port?.dropped ?? 0;
  if (dropped > 0 && bridgeY === y && drawn.mark?.at !== "port") {
    lines.push(
      svg("text", { class: "note", x: places.port, y: y - 6, "text-anchor": "middle" }, `${dropped} dropped`),
    );
  }
  if (drawn.mark !== undefined) lines.push(drawMark(drawn.mark, places[drawn.mark.at], y));
  return svg("g", { class: `row ${of.health}` }, ...lines);
}

function line({ states }: DrawnSegments, at: keyof DrawnSegments["states"], d: string): SVGElement {
  return svg("path", { class: `line ${states[at]}`, d });
}

function curve(x1: number, y1: number, x2: number, y2: number): string {
  if (y1 === y2) return `M${x1} ${y1}H${x2}`;
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}

/** The state of a port stands beside its name where there is room for both; its title has it in any case. */
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

function measure(text: string, font: string): number {
  const context = document.createElement("canvas").getContext("2d");
  if (context === null) return text.length * 7;
  context.font = font;
  return context.measureText(text).width;
}

function words(
  kind: string,
  x: number,
  y: number,
  text: string,
  { width, font, end = false }: { readonly width: number; readonly font: string; readonly end?: boolean },
): SVGElement {
  return svg("text", { class: kind, x, y, "text-anchor": end ? "end" : "start" }, fitText(text, width, font));
}
