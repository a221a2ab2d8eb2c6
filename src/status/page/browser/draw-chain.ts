import { LINKS, type Link } from "../../diagnosis/link.ts";
import type { PodChains } from "../page-shape.ts";
import { HEALTH_WORDS } from "../picture/words.ts";
import { byId, fill, html, type Mark, markIcon } from "./elements.ts";

const MARKS: Readonly<Record<Link["verdict"], { readonly mark: Mark; readonly word: string }>> = {
  ok: { mark: "healthy", word: "ok" },
  broken: { mark: "broken", word: "broken" },
  waiting: { mark: "degraded", word: "waiting" },
  unknown: { mark: "unknown", word: "not known" },
};

/** The chains of a pod, as `vhostuserctl trace` has them. */
export function drawChains({ namespace, name, interfaces }: PodChains): void {
  fill(byId("chain-title"), html("bdi", `${namespace}/${name}`));
  const body = byId("chain-body");
  // What a reader has opened stays open.
  const open = [...body.querySelectorAll("details")].map((details) => details.open);
  fill(body, ...interfaces.map((one, index) => drawInterface(one, open[index] ?? false)));
}

/** Shown instead of chains. */
export function drawNoChains(title: string, why: string): void {
  fill(byId("chain-title"), html("bdi", title));
  fill(byId("chain-body"), html("p.why", why));
}

function drawInterface(one: PodChains["interfaces"][number], open: boolean): HTMLElement {
  const { name, health, chain, facts } = one;
  const rest = LINKS.slice(chain.length).map((link) =>
    html("li.beyond", markIcon("none"), html("div", html("strong", link), " not reached")),
  );
  return html(
    `section.chain.${health}`,
    html("h3", markIcon(health, 18), html("bdi", name), html("span.state", HEALTH_WORDS[health])),
    ...chain.slice(-1).map(drawCure),
    html("ol.links", ...chain.map(drawLink), ...rest),
    html("details", { open }, html("summary", "More of this interface"), drawList(facts)),
  );
}

function drawLink({ name, verdict, what, cause }: Link): HTMLElement {
  const { mark, word } = MARKS[verdict];
  return html(
    `li.${verdict}${cause === undefined ? "" : ".end"}`,
    markIcon(mark),
    html("div", html("strong", name), html("span.verdict", ` ${word}`), html("p", html("bdi", what))),
  );
}

/** Of the last link, where the chain ends before its end. */
function drawCure({ name, verdict, cause, cure }: Link): HTMLElement | undefined {
  if (cause === undefined || cure === undefined) return undefined;
  const title = verdict === "waiting" ? `It waits at ${name}` : `The chain breaks at ${name}`;
  const words = drawList([
    ["Cause", cause],
    ["Cure", cure],
  ]);
  return html(`div.cure.${verdict}`, html("h4", title), words);
}

function drawList(rows: readonly (readonly [label: string, text: string])[]): HTMLElement {
  return html("dl", ...rows.flatMap(([label, text]) => [html("dt", label), html("dd", html("bdi", text))]));
}
