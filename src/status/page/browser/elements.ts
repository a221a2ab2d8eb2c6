import type { Health } from "../page-shape.ts";

/** Begins the fragment of an address that shows a pod's chain; the pod's id follows. */
export const HASH = "#pod=";

const SVG = "http://www.w3.org/2000/svg";

/** What may be put into an element; a text is always text. */
export type Child = Node | string | undefined;

type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

type TagOf<Selector> = Selector extends `${infer Tag}.${string}` ? Tag : Selector;
type ElementOf<Tag> = Tag extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[Tag] : never;

/** Makes an HTML element. @param selector a tag with classes, `p.note`. @param content children, and attributes */
export function html<Selector extends string>(
  selector: Selector,
  ...content: readonly (Child | Attributes)[]
): ElementOf<TagOf<Selector>> {
  const [tag = "", ...classes] = selector.split(".");
  const element = document.createElement(tag);
  if (classes.length > 0) element.className = classes.join(" ");
  for (const one of content) {
    if (typeof one === "string" || one instanceof Node) element.append(one);
    else if (one !== undefined) setAttributes(element, one);
  }
  return element as ElementOf<TagOf<Selector>>;
}

/** Sets attributes; those that are undefined or false are removed. */
export function setAttributes(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) element.removeAttribute(name);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
  }
}

/** Puts children in the place of those that are there. */
export function fill(element: Element, ...children: readonly Child[]): void {
  element.replaceChildren(...children.filter((child) => child !== undefined));
}

/** Makes these the children of an element, in this order; a child that is in its place stays there and keeps the focus. */
export function arrange(parent: Element, children: readonly Element[]): void {
  const wanted = new Set(children);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  let next = parent.firstElementChild;
  for (const child of children) {
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
}

/** A name that the style may cut with an ellipsis; its title has all of it. */
export function nameText(kind: string, text: string): HTMLElement {
  return html("bdi", { class: kind, title: text }, text);
}

/** A mark that page.html defines: each has a shape of its own, so that none needs its colour. */
export type Mark = Health | "unknown" | "none";

/** A mark as an icon; the words beside it say the same. */
export function markIcon(mark: Mark, size = 16): SVGSVGElement {
  const [icon, use] = [document.createElementNS(SVG, "svg"), document.createElementNS(SVG, "use")];
  setAttributes(use, { href: `#mark-${mark}` });
  setAttributes(icon, { class: "mark", width: size, height: size, "aria-hidden": "true" });
  icon.append(use);
  return icon;
}

/** An element of the document, by id. */
export function byId<Kind extends Element = HTMLElement>(id: string): Kind {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no #${id}`);
  return element as unknown as Kind;
}
