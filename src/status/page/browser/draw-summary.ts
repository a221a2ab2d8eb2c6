import { age, plural } from "../../words.ts";
import type { PageNode, PagePool } from "../page-shape.ts";
import { HEALTH_WORDS, nodeWords } from "../picture/words.ts";
import { byId, fill, html, type Mark, markIcon } from "./elements.ts";

/** Problems that are shown without being asked for. */
const AT_ONCE = 3;

/** Everything above the picture. */
export function drawSummary(view: PageNode): void {
  const { node, version, at, startedAt, lastPassAt, health } = view;
  document.title = `${node}: ${nodeWords(view)}`;
  fill(byId("node"), node);
  fill(
    byId("about"),
    `kube-vhostuser ${version}, up ${age(at - startedAt)}, `,
    lastPassAt === undefined ? "not checked yet" : `last checked ${age(at - lastPassAt)} ago`,
  );
  const badge = byId("health");
  badge.className = `badge ${health}`;
  const words = nodeWords(view);
  // A live region: it is read out where its text changes, so it must not change without need.
  if (badge.textContent !== words) fill(badge, markIcon(health, 18), html("span", words));
  fill(byId("tiles"), interfacesTile(view), ...view.pools.map(poolTile));
  drawProblems(view);
}

function interfacesTile({ interfaces, unattached }: PageNode): HTMLElement {
  const all = interfaces.healthy + interfaces.degraded + interfaces.broken;
  const counts = (["healthy", "degraded", "broken"] as const).map((health) =>
    html(
      "li",
      { class: interfaces[health] === 0 ? "nothing" : health },
      markIcon(interfaces[health] === 0 ? "none" : health, 14),
      `${interfaces[health]} ${HEALTH_WORDS[health]}`,
    ),
  );
  return tile(
    "Interfaces",
    String(all),
    html("ul.counts", ...counts),
    ...(unattached === 0 ? [] : [html("p", `${plural(unattached, "allocation")} without an interface`)]),
  );
}

function poolTile({
  name,
  resource,
  registered,
  configured,
  devices,
  healthy,
  inUse,
}: PagePool): HTMLElement {
  const mark: Mark = !configured ? "unknown" : registered && healthy === devices ? "healthy" : "broken";
  const state = !configured
    ? "no longer configured"
    : !registered
      ? "kubelet does not know it"
      : healthy < devices
        ? `${devices - healthy} devices not healthy`
        : "known to kubelet";
  const meter = html("meter", {
    min: 0,
    max: Math.max(devices, 1),
    value: inUse,
    "aria-label": `devices of pool ${name} in use`,
  });
  return tile(
    `Pool ${name}`,
    `${inUse} of ${devices}`,
    meter,
    html("p", markIcon(mark, 14), html("span", html("bdi", resource), ` ${state}`)),
  );
}

function tile(title: string, figure: string, ...rest: readonly HTMLElement[]): HTMLElement {
  return html("section.tile", html("h2", html("bdi", title)), html("p.figure", figure), ...rest);
}

/** The first ones; the others are a click away, or the picture would be out of sight. */
function drawProblems({ problems }: PageNode): void {
  byId("problems").hidden = problems.length === 0;
  fill(byId("problem-list"), ...problems.slice(0, AT_ONCE).map(drawProblem));
  const more = byId("more-problems");
  more.hidden = problems.length <= AT_ONCE;
  fill(byId("more-count"), `${problems.length - AT_ONCE} more`);
  fill(byId("more-list"), ...problems.slice(AT_ONCE).map(drawProblem));
}

function drawProblem({ what, look }: PageNode["problems"][number]): HTMLElement {
  const words = html("p", html("bdi", what));
  return html("li", markIcon("broken"), html("div", words, html("p.look", "see ", html("bdi", look))));
}
