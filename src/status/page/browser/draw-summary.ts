import { age, plural } from "../../words.ts";
import { HEALTHS, type PageNode } from "../page-shape.ts";
import { HEALTH_WORDS, nodeWords } from "../picture/words.ts";
import { byId, fill, HASH, html, type Mark, markIcon } from "./elements.ts";

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
  const hugepages = view.hugepages.filter(({ total }) => total > 0);
  fill(byId("tiles"), interfacesTile(view), ...view.pools.map(poolTile), ...hugepages.map(hugepagesTile));
  drawProblems(view);
}

function interfacesTile({ interfaces, unattached }: PageNode): HTMLElement {
  const counts = HEALTHS.map((health) => {
    const mark = interfaces[health] === 0 ? "none" : health;
    const kind = mark === "none" ? "nothing" : health;
    return html(`li.${kind}`, markIcon(mark, 14), `${interfaces[health]} ${HEALTH_WORDS[health]}`);
  });
  return tile(
    "Interfaces",
    String(interfaces.healthy + interfaces.degraded + interfaces.broken),
    html("ul.counts", ...counts),
    unattached === 0 ? undefined : html("p", `${plural(unattached, "allocation")} without an interface`),
  );
}

function poolTile(pool: PageNode["pools"][number]): HTMLElement {
  const { name, resource, registered, configured, devices, healthy, inUse, claims } = pool;
  const mark: Mark = !configured ? "unknown" : registered && healthy === devices ? "healthy" : "broken";
  const state = !configured
    ? "no longer configured"
    : !registered
      ? "kubelet does not know it"
      : healthy < devices
        ? `${plural(devices - healthy, "device")} not healthy`
        : "known to kubelet";
  return tile(
    `Pool ${name}`,
    `${inUse} of ${devices}`,
    drawMeter(`devices of pool ${name}`, inUse, devices),
    claims === 0 ? undefined : html("p", `${plural(claims, "more socket")} by claims`),
    html("p", markIcon(mark, 14), html("span", html("bdi", resource), ` ${state}`)),
  );
}

function hugepagesTile({ size, total, free }: PageNode["hugepages"][number]): HTMLElement {
  return tile(
    `Hugepages of ${size}`,
    `${total - free} of ${total}`,
    drawMeter(`${size} hugepages`, total - free, total),
    html("p", "in use on the whole node"),
  );
}

function drawMeter(what: string, value: number, max: number): HTMLElement {
  return html("meter", { min: 0, max: Math.max(max, 1), value, "aria-label": `${what} in use` });
}

function tile(title: string, figure: string, ...rest: readonly (HTMLElement | undefined)[]): HTMLElement {
  return html("section.tile", html("h2", html("bdi", title)), html("p.figure", figure), ...rest);
}

let drawnProblems = "";

/** The first ones; the others are a click away, or the picture would be out of sight. Kept while none changes, with the focus. */
function drawProblems({ problems }: PageNode): void {
  const now = JSON.stringify(problems);
  if (now === drawnProblems) return;
  drawnProblems = now;
  byId("problems").hidden = problems.length === 0;
  fill(byId("problem-list"), ...problems.slice(0, AT_ONCE).map(drawProblem));
  const more = byId("more-problems");
  more.hidden = problems.length <= AT_ONCE;
  fill(byId("more-count"), `${Math.max(0, problems.length - AT_ONCE)} more`);
  fill(byId("more-list"), ...problems.slice(AT_ONCE).map(drawProblem));
}

function drawProblem({ what, look, pod }: PageNode["problems"][number]): HTMLElement {
  const text = html("bdi", what);
  const words = html("p", pod === undefined ? text : html("a", { href: `${HASH}${pod}` }, text));
  return html("li", markIcon("broken"), html("div", words, html("p.look", "see ", html("bdi", look))));
}
