import type { Link } from "../../diagnosis/link.ts";
import type { PageChain, PodChains } from "../page-shape.ts";
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

function drawInterface({ name, health, chain, beyond, facts }: PageChain, open: boolean): HTMLElement {
  const end = chain.at(-1);
  return html(
    "section",
    { class: `chain ${health}` },
    html("h3", markIcon(health, 18), html("bdi", name), html("span.state", HEALTH_WORDS[health])),
    end?.cure === undefined ? undefined : drawCure(end),
    html(
      "ol.links",
      ...chain.map(drawLink),
      ...beyond.map((link) =>
        html("li.beyond", markIcon("none"), html("div", html("strong", link), " not reached")),
      ),
    ),
    html(
      "details",
      { open },
      html("summary", "More of this interface"),
      html("dl", ...facts.flatMap(([label, text]) => [html("dt", label), html("dd", html("bdi", text))])),
    ),
  );
}

function drawLink({ name, verdict, what, cause, cure }: Link): HTMLElement {
  const { mark, word } = MARKS[verdict];
  const isEnd = cause !== undefined || cure !== undefined;
  return html(
    "li",
    { class: `${verdict}${isEnd ? " end" : ""}` },
    markIcon(mark),
    html("div", html("strong", name), html("span.verdict", ` ${word}`), html("p", html("bdi", what))),
  );
}

function drawCure({ name, verdict, cause, cure }: Link): HTMLElement {
  return html(
    "div",
    { class: `cure ${verdict}` },
    html("h4", verdict === "waiting" ? `It waits at ${name}` : `The chain breaks at ${name}`),
    html(
      "dl",
      html("dt", "Cause"),
      html("dd", html("bdi", cause)),
      html("dt", "Cure"),
      html("dd", html("bdi", cure)),
    ),
  );
}
