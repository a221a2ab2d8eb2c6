import { plural } from "../../words.ts";
import type { PageBridge, PageInterface, PagePod } from "../page-shape.ts";
import { rateKey } from "../picture/rates.ts";
import { type Segment, segmentsOf } from "../picture/segments.ts";
import {
  HEALTH_WORDS,
  nicWords,
  podLabel,
  portState,
  rateWords,
  SOCKET_WORDS,
  switchWords,
} from "../picture/words.ts";
import { arrange, fill, html, type Mark, markIcon, nameText, setAttributes } from "./elements.ts";

// The picture is a list of pods for each bridge, laid out by style/picture.css. Screen readers read the same elements:
// what only a shape or a colour shows is there as hidden text too.

/** Everything that the picture shows. */
export interface Drawing {
  readonly pods: readonly PagePod[];
  readonly bridges: readonly PageBridge[];
  /** Id of the pod whose chain is shown. */
  readonly selected: string | undefined;
  /** Packets a second, by {@link rateKey}. */
  readonly rates: ReadonlyMap<string, number>;
}

/** Elements of a pod. They are kept from one drawing to the next, or its button would lose the focus at each. */
class DrawnPod {
  readonly button: HTMLButtonElement;
  readonly item: HTMLLIElement;
  readonly #rows = html("ul.rows", { role: "list" });
  #drawn = "";

  constructor(id: string, onSelect: (pod: string) => void) {
    this.button = html("button.card", { type: "button", tabindex: -1, "data-pod": id });
    this.button.addEventListener("click", () => onSelect(id));
    this.item = html("li", this.button, this.#rows);
  }

  draw(pod: PagePod, home: string | undefined, { bridges, selected, rates }: Drawing): void {
    const { id, namespace, name, health } = pod;
    const isSelected = id === selected;
    const rows = pod.interfaces.map((one) => {
      const bridge = bridges.find((each) => each.id === one.bridge)?.name;
      return [one, one.bridge === home ? undefined : bridge, rates.get(rateKey(id, one.name))] as const;
    });
    const now = JSON.stringify([pod, rows, isSelected]);
    if (now === this.#drawn) return;
    this.#drawn = now;
    setAttributes(this.item, { class: `pod ${health}${isSelected ? " selected" : ""}` });
    setAttributes(this.button, {
      "aria-label": podLabel(pod),
      "aria-pressed": String(isSelected),
      title: `${namespace}/${name}`,
    });
    fill(this.button, html("bdi.namespace", `${namespace}/`), nameText("name", name), markIcon(health));
    fill(this.#rows, ...rows.map((row) => drawRow(...row)));
  }
}

/** Elements of a bridge and of the pods on it, kept likewise. */
class DrawnGroup {
  readonly #bridge = html("div");
  readonly #pods = html("ul.pods", { role: "list" });
  readonly section = html("div.group");

  draw(bridge: PageBridge | undefined, pods: readonly HTMLElement[]): void {
    arrange(this.section, bridge === undefined ? [this.#pods] : [this.#bridge, this.#pods]);
    if (bridge !== undefined) drawBridge(this.#bridge, bridge);
    arrange(this.#pods, pods);
  }
}

/** The picture; pods in it are buttons, with one tab stop for all of them. */
export class Picture {
  readonly #root = html("div", {
    id: "picture",
    role: "group",
    "aria-label": "Pods of this node by bridge; arrow keys go from one pod to the next",
  });
  readonly #headings = html(
    "div.headings",
    { "aria-hidden": "true" },
    ...["Pod, its interfaces and networks", "Socket", "Port", "Bridge"].map((text) => html("span", text)),
  );
  readonly #onSelect: (pod: string) => void;
  readonly #groups = new Map<string | undefined, DrawnGroup>();
  readonly #pods = new Map<string, DrawnPod>();

  /** @param onSelect called with the pod's id */
  constructor(parent: Element, onSelect: (pod: string) => void) {
    this.#onSelect = onSelect;
    parent.append(this.#root);
    this.#root.addEventListener("keydown", (event) => this.#onKey(event));
    this.#root.addEventListener("focusin", ({ target }) => this.#setTabStop(target));
  }

  /** Redraws what differs from the last time. */
  draw(drawing: Drawing): void {
    const { pods, bridges, selected } = drawing;
    const focused = document.activeElement;
    const byBridge = Map.groupBy(pods, homeOf);
    // The bridge of the worst pod first; bridges without pods last.
    const ids = new Set([...byBridge.keys(), ...bridges.map(({ id }) => id)]);
    const sections = [...ids].map((id) => {
      const bridge = bridges.find((each) => each.id === id);
      return this.#drawGroup(bridge, byBridge.get(id) ?? [], drawing);
    });
    arrange(this.#root, [this.#headings, ...sections]);
    const shown = new Set(pods.map(({ id }) => id));
    for (const id of this.#pods.keys()) if (!shown.has(id)) this.#pods.delete(id);
    const buttons = this.#buttons();
    if (buttons.some((button) => button === focused)) {
      // Moving a pod to another group blurs its button.
      if (document.activeElement !== focused) (focused as HTMLElement).focus({ preventScroll: true });
    } else {
      this.#setTabStop(buttons.find(({ dataset }) => dataset["pod"] === selected) ?? buttons[0]);
    }
  }

  /** Puts the focus on a pod, or on the tab stop where the pod is not shown. */
  focus(pod: string | undefined): void {
    const button = pod === undefined ? undefined : this.#pods.get(pod)?.button;
    (button ?? this.#buttons().find(({ tabIndex }) => tabIndex === 0))?.focus();
  }

  #drawGroup(bridge: PageBridge | undefined, own: readonly PagePod[], drawing: Drawing): HTMLElement {
    const group = this.#groups.get(bridge?.id) ?? new DrawnGroup();
    this.#groups.set(bridge?.id, group);
    const drawn = own.map((pod) => {
      const known = this.#pods.get(pod.id) ?? new DrawnPod(pod.id, this.#onSelect);
      this.#pods.set(pod.id, known);
      known.draw(pod, bridge?.id, drawing);
      return known.item;
    });
    group.draw(bridge, drawn);
    return group.section;
  }

  #buttons(): HTMLButtonElement[] {
    return [...this.#root.querySelectorAll<HTMLButtonElement>("[data-pod]")];
  }

  #setTabStop(stop: EventTarget | null | undefined): void {
    for (const button of this.#buttons()) setAttributes(button, { tabindex: button === stop ? 0 : -1 });
  }

  #onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const buttons = this.#buttons();
    const at = buttons.indexOf(event.target as HTMLButtonElement);
    if (at < 0) return;
    const targets: Readonly<Record<string, HTMLElement | undefined>> = {
      ArrowDown: buttons[at + 1],
      ArrowUp: buttons[at - 1],
      Home: buttons[0],
      End: buttons.at(-1),
    };
    if (!Object.hasOwn(targets, event.key)) return;
    targets[event.key]?.focus();
    event.preventDefault();
  }
}

/** A pod belongs to the bridge of its first interface that is on one. */
function homeOf({ interfaces }: PagePod): string | undefined {
  return interfaces.find(({ bridge }) => bridge !== undefined)?.bridge;
}

function drawBridge(element: HTMLElement, bridge: PageBridge): void {
  const { name, ready, reason, ports } = bridge;
  const mark: Mark = ready === undefined ? "unknown" : ready ? "healthy" : "broken";
  const state = ready === undefined ? "no pool uses it" : ready ? "ready" : "not ready";
  setAttributes(element, { class: `bridge ${mark}`, title: `${name}: ${reason ?? state}` });
  const notes = [...switchWords(bridge), `${plural(ports, "port")}, ${state}`].map((line) =>
    html("p.note", html("bdi", line)),
  );
  const heading = html("h3", nameText("name", name), markIcon(mark));
  fill(element, html("div.about-bridge", heading, ...notes));
}

/** An interface from its pod to its bridge. @param elsewhere the bridge's name where it is not that of the group */
function drawRow(one: PageInterface, elsewhere: string | undefined, rate: number | undefined): HTMLElement {
  const { name, network, device, socket, portName, port, bridge, broken } = one;
  const { states, mark } = segmentsOf(one);
  const line = (at: Segment, ...notes: readonly (HTMLElement | undefined)[]) => {
    const shown = mark?.at === at ? [drawBreak(one.health, mark.name, broken?.what ?? "")] : notes;
    return html(`span.line.${states[at]}`, ...shown);
  };
  const { fromGuest, toGuest } = port?.traffic ?? {};
  const dropped = (fromGuest?.dropped ?? 0) + (toGuest?.dropped ?? 0);
  const traffic = [
    rate === undefined ? undefined : html("span.note.rate", rateWords(rate)),
    dropped === 0 ? undefined : html("span.note.dropped", `${dropped} dropped`),
  ];
  const words = `socket ${SOCKET_WORDS[socket]}`;
  const row = html(
    "li.row",
    html(
      "span.interface",
      nameText("name", name),
      nameText("note", network ?? device),
      nameText("note nic", nicWords(one)),
    ),
    line("socket"),
    html("span", { class: `socket at-${socket}`, title: words }, html("span.unseen", words)),
  );
  if (portName === undefined) return row;
  row.append(line("peer"), drawPort(one, portName));
  if (bridge === undefined) return row;
  const other = elsewhere === undefined ? undefined : nameText("elsewhere", elsewhere);
  row.append(html("span.to-bridge", line("port", ...traffic), other));
  return row;
}

function drawPort(one: PageInterface, portName: string): HTMLElement {
  const { kind, full, short } = portState(one);
  return html(
    `span.port.${kind}`,
    { title: `${portName}: ${full}` },
    nameText("name", portName),
    html("span.note", { "aria-hidden": "true" }, short),
    html("span.unseen", full),
  );
}

/** Where the chain breaks: the mark and the link's name. */
function drawBreak(health: PageInterface["health"], link: string, what: string): HTMLElement {
  return html(
    `span.break.${health}`,
    { title: what },
    markIcon(health, 14),
    html("span.unseen", `${HEALTH_WORDS[health]} at `),
    html("span.name", link),
    html("span.unseen", `: ${what}`),
  );
}
