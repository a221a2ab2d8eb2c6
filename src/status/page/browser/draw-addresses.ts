import { plural } from "../../words.ts";
import type { PageAddresses, PageNode } from "../page-shape.ts";
import { byId, fill, html, markIcon } from "./elements.ts";

let drawn = "";

/** The addresses that the IPAM agent hands out, where the node has one. */
export function drawAddresses({ addresses }: Pick<PageNode, "addresses">): void {
  const now = JSON.stringify(addresses) ?? "";
  if (now === drawn) return;
  drawn = now;
  byId("addresses").hidden = addresses === undefined;
  if (addresses === undefined) return;
  const { morePools, resting } = addresses;
  fill(
    byId("address-body"),
    drawPools(addresses),
    morePools === 0 ? undefined : html("p.look", `${plural(morePools, "more pool")}: vhostuserctl ip pools`),
    resting === undefined ? undefined : html("p.look", resting),
    ...drawLeaks(addresses),
  );
}

function drawPools({ pools }: PageAddresses): HTMLElement {
  if (pools.length === 0) return html("p.look", "There are no pools.");
  const head = ["Pool", "Blocks", "Used", "Free", "Resting", "Used in the cluster"];
  return html(
    "table",
    html("thead", html("tr", ...head.map((title) => html("th", { scope: "col" }, title)))),
    html(
      "tbody",
      ...pools.map(({ name, blocks, used, free, resting, cluster = "not known" }) =>
        html(
          "tr",
          html("th", { scope: "row" }, html("bdi", name)),
          ...[blocks, used, free, resting, cluster].map((cell) => html("td", String(cell))),
        ),
      ),
    ),
  );
}

function drawLeaks({ leaks, moreLeaks }: PageAddresses): readonly (HTMLElement | undefined)[] {
  if (leaks.length === 0) return [];
  return [
    html("h3", "Leaked, and still held"),
    html(
      "ul",
      ...leaks.map(({ what, why }) =>
        html(
          "li",
          markIcon("degraded"),
          html("div", html("p", html("bdi", what)), html("p.look", html("bdi", why))),
        ),
      ),
    ),
    moreLeaks === 0
      ? undefined
      : html("p.look", `${plural(moreLeaks, "more interface")}: vhostuserctl ip leaks`),
  ];
}
