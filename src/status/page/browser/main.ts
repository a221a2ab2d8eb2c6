import { age } from "../../words.ts";
import type { PageNode, PagePod, PageSnapshot, PodChains } from "../page-shape.ts";
import { Rates } from "../picture/rates.ts";
import { foundBy } from "../picture/words.ts";
import { drawAddresses } from "./draw-addresses.ts";
import { drawChains, drawNoChains } from "./draw-chain.ts";
import { Picture } from "./draw-picture.ts";
import { drawSummary } from "./draw-summary.ts";
import { byId, fill, HASH } from "./elements.ts";

/** Between two requests; a slow answer makes it longer, so that the page never keeps a node busy. */
const EVERY_MS = 2_000;
const TIMES_SLOWER = 10;
/** The daemon's own deadline is 3 s; kubelet's list may take 5 s. */
const ANSWER_MS = 12_000;

/** Pods that are drawn at first, and more with each click: 200 would take 20 screens. */
const PAGE = 20;

/** The daemon answered 404. */
class NotThere extends Error {}

const filter = byId<HTMLInputElement>("filter");
const attention = byId<HTMLInputElement>("attention");
const chain = byId("chain");
const picture = new Picture(byId("canvas"), select);

const rates = new Rates();

/** Where the page is a file: it shows this and asks nothing. */
const snapshot = readSnapshot();

let view: PageNode | undefined;
/** Packets a second, by interface. */
let passing: ReadonlyMap<string, number> = new Map();
/** Id of the pod whose chain is shown. */
let selected = podOfAddress();
let limit = PAGE;
/** By this browser's clock, when the last answer came. */
let answeredAt: number | undefined;
let drawnChain = "";
let wake = Promise.withResolvers<void>();

function readSnapshot(): PageSnapshot | undefined {
  const text = document.getElementById("snapshot")?.textContent;
  return text === undefined ? undefined : (JSON.parse(text) as PageSnapshot);
}

/** Requests, draws and waits, as long as the page is visible. */
async function run(): Promise<void> {
  if (snapshot !== undefined) return refresh();
  for (;;) {
    while (document.hidden) await wake.promise;
    const began = performance.now();
    await refresh();
    const pause = Math.max(EVERY_MS, (performance.now() - began) * TIMES_SLOWER);
    const timer = setTimeout(() => wake.resolve(), Math.min(pause, 60_000));
    await wake.promise;
    clearTimeout(timer);
    wake = Promise.withResolvers();
  }
}

async function refresh(): Promise<void> {
  try {
    const next = snapshot?.node ?? (await ask<PageNode>("api/node"));
    // Another release has another page.
    if (view !== undefined && view.version !== next.version) location.reload();
    view = next;
    passing = rates.note(next);
    answeredAt = Date.now();
    byId("stale").hidden = true;
    document.body.dataset["state"] = snapshot === undefined ? "live" : "snapshot";
    draw();
    if (selected !== undefined) await refreshChain(selected);
  } catch (error) {
    showStale(error);
  }
}

function showStale(error: unknown): void {
  document.body.dataset["state"] = "stale";
  const since = answeredAt === undefined ? "" : ` since ${new Date(answeredAt).toLocaleTimeString()}`;
  const why = error instanceof TypeError ? "the daemon cannot be reached" : `${(error as Error).message}`;
  const text = view === undefined ? `Nothing to show: ${why}` : `Stale${since}: ${why}`;
  const banner = byId("stale");
  banner.hidden = false;
  // Read out once, not at each try.
  if (byId("stale-text").textContent !== text) fill(byId("stale-text"), text);
  showFreshness();
}

async function refreshChain(pod: string): Promise<void> {
  try {
    const chains =
      snapshot?.chains[pod] ?? (await ask<PodChains>(`api/chain?pod=${encodeURIComponent(pod)}`));
    const text = JSON.stringify(chains);
    if (pod !== selected || text === drawnChain) return;
    drawnChain = text;
    drawChains(chains);
  } catch (error) {
    if (!(error instanceof NotThere)) throw error;
    drawnChain = "";
    if (pod !== selected) return;
    if (snapshot !== undefined) drawNoChains("Not traced", "This snapshot has no chain of this pod.");
    else drawNoChains("This pod is gone", "It has no interface on this node any more.");
  }
}

/** Asks the daemon. @throws NotThere for a 404; any other Error where it cannot be asked or has no answer */
async function ask<Answer>(path: string): Promise<Answer> {
  if (snapshot !== undefined) throw new NotThere(path);
  const response = await fetch(path, { signal: AbortSignal.timeout(ANSWER_MS), cache: "no-store" });
  if (response.status === 404) throw new NotThere(path);
  if (!response.ok) throw new Error(`the daemon answered ${response.status}`);
  return (await response.json()) as Answer;
}

function draw(): void {
  if (view === undefined) return;
  drawSummary(view);
  drawAddresses(view);
  const wanted = view.pods.filter(isWanted);
  const pods = wanted.filter(({ id }, index) => index < limit || id === selected);
  picture.draw({ pods, bridges: view.bridges, selected, rates: passing });
  byId("empty").hidden = pods.length > 0;
  byId("more-pods").hidden = pods.length === wanted.length;
  fill(
    byId("empty"),
    view.pods.length === 0
      ? "No pod has a vhost-user interface on this node yet. One appears here as soon as its network is attached."
      : "No pod is left with this filter.",
  );
  const left = view.leftOut === 0 ? "" : `; ${view.leftOut} healthy interfaces are left out`;
  const all = pods.length === wanted.length ? "" : ` of ${wanted.length}`;
  fill(byId("shown"), `${pods.length}${all} ${wanted.length === 1 ? "pod" : "pods"} shown${left}`);
  showFreshness();
}

function isWanted(pod: PagePod): boolean {
  return !(attention.checked && pod.health === "healthy") && foundBy(filter.value, pod);
}

function podOfAddress(): string | undefined {
  return location.hash.startsWith(HASH) ? location.hash.slice(HASH.length) : undefined;
}

function select(pod: string | undefined): void {
  const before = selected;
  selected = pod;
  history.replaceState(undefined, "", pod === undefined ? location.pathname : `${HASH}${pod}`);
  chain.hidden = pod === undefined;
  document.body.classList.toggle("with-chain", pod !== undefined);
  drawnChain = "";
  if (pod === undefined) {
    draw();
    picture.focus(before);
    return;
  }
  const known = view?.pods.find(({ id }) => id === pod);
  drawNoChains(known === undefined ? "…" : `${known.namespace}/${known.name}`, "Loading…");
  draw();
  byId("chain-title").focus();
  refreshChain(pod).catch(showStale);
}

function showFreshness(): void {
  const { dataset } = document.body;
  if (snapshot !== undefined)
    fill(byId("fresh"), `snapshot of ${new Date(snapshot.node.at).toLocaleString()}`);
  else if (dataset["state"] === "stale") fill(byId("fresh"), "stale");
  else if (answeredAt !== undefined) fill(byId("fresh"), `updated ${age(Date.now() - answeredAt)} ago`);
}

for (const input of [filter, attention]) {
  input.addEventListener("input", () => {
    limit = PAGE;
    draw();
  });
}
byId("more-pods").addEventListener("click", () => {
  limit += PAGE;
  draw();
});
// A link to a chain, or the browser's way back.
addEventListener("hashchange", () => select(podOfAddress()));
byId("close").addEventListener("click", () => select(undefined));
document.addEventListener("keydown", ({ key }) => {
  if (key === "Escape" && selected !== undefined) select(undefined);
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) wake.resolve();
});
setInterval(showFreshness, 1_000);
if (selected !== undefined) {
  chain.hidden = false;
  document.body.classList.add("with-chain");
}
void run();
