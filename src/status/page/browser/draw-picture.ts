import type { PagePod } from "../page-shape.ts";
import type { Layout, PlacedPod } from "../picture/layout.ts";
import { rateKey } from "../picture/rates.ts";
import { podLabel } from "../picture/words.ts";
import { drawBridge, drawCard, drawFace, drawHeadings } from "./draw-parts.ts";
import { drawRow } from "./draw-row.ts";
import { fill, setAttributes, svg } from "./elements.ts";

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
  /** Labels of the pods; the buttons have the names for screen readers. */
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

  /** Redraws what differs from the last time. */
  draw(layout: Layout, selected: string | undefined, rates: ReadonlyMap<string, number>): void {
    const now = JSON.stringify([layout, selected, [...rates]]);
    if (now === this.#drawn) return;
    this.#drawn = now;
    const { width, height, pods, bridges } = layout;
    setAttributes(this.#root, { viewBox: `0 0 ${width} ${height}`, width, height });
    fill(this.#bridges, ...bridges.map(drawBridge));
    fill(this.#headings, ...drawHeadings(layout));
    fill(
      this.#lines,
      ...pods.flatMap((pod) =>
        pod.rows.map((row) => drawRow(layout, pod, row, rates.get(rateKey(pod.of.id, row.of.name)))),
      ),
    );
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

  #button({ id }: PagePod): SVGGElement {
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
