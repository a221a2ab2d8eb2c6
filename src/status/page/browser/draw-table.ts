import type { PageInterface, PageNode, PagePod } from "../page-shape.ts";
import { HEALTH_WORDS, portWords } from "../picture/words.ts";
import { byId, fill, html } from "./elements.ts";
import { markIcon } from "./marks.ts";

const SOCKET_WORDS: Readonly<Record<PageInterface["socket"], string>> = {
  there: "there",
  missing: "not there",
  wrong: "something else in its place",
  unknown: "not known",
};

/** The picture as a table. @param onSelect called with a pod's id */
export function drawTable(
  pods: readonly PagePod[],
  bridges: PageNode["bridges"],
  onSelect: (pod: string) => void,
): void {
  const nameOf = new Map(bridges.map(({ id, name }) => [id, name]));
  const rows = pods.flatMap((pod) =>
    pod.interfaces.map((one, index) => {
      const title = `${pod.namespace}/${pod.name}`;
      const button = html(
        "button",
        { type: "button", "data-row": `${pod.id} ${index}` },
        html("bdi", {}, title),
      );
      button.addEventListener("click", () => onSelect(pod.id));
      const why = one.broken === undefined ? "" : ` at ${one.broken.name}: ${one.broken.what}`;
      return html(
        "tr",
        {},
        html("th", { scope: "row" }, button),
        html("td", {}, html("bdi", {}, one.name)),
        html("td", {}, html("bdi", {}, one.network ?? "none")),
        html("td", {}, SOCKET_WORDS[one.socket]),
        html("td", {}, html("bdi", {}, portWords(one))),
        html("td", {}, html("bdi", {}, nameOf.get(one.bridge ?? "") ?? "none")),
        html("td", {}, markIcon(one.health, 14), html("span", {}, ` ${HEALTH_WORDS[one.health]}${why}`)),
      );
    }),
  );
  const focused = document.activeElement?.getAttribute("data-row");
  fill(byId("rows"), ...rows);
  if (focused) {
    byId("rows")
      .querySelector<HTMLElement>(`[data-row="${CSS.escape(focused)}"]`)
      ?.focus({ preventScroll: true });
  }
}
