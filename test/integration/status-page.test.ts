import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { NodeStatus } from "../../src/status/shape.ts";
import { type Chromium, startChromium } from "../browser/chromium.ts";
import { openWatched, type WatchedPage } from "../browser/watched-page.ts";
import { ClusterNode, SOCKETS } from "../cluster/cluster-node.ts";
import { DpdkPod } from "../cluster/dpdk-pod.ts";
import { exampleNetwork } from "../cluster/network.ts";
import { BRIDGES, startSwitch } from "../cluster/switch.ts";
import type { OvsDpdk } from "../lab/ovs-dpdk.ts";
import { freePort } from "../machine/free-port.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { jsonOf } from "./ctl-node.ts";

/** The page asks every 2 s; the rest is for a busy machine. */
const SEEN = { timeout: 60_000 };

/** The page asks at once when its tab comes to the front. */
const REFRESH = `document.dispatchEvent(new Event("visibilitychange"))`;

let run: LabRun;
let ovs: OvsDpdk;
let node: ClusterNode;
let browser: Chromium;
let shown: WatchedPage;
let page: Page;

beforeAll(async () => {
  run = await openLabRun();
  browser = await startChromium();
  ovs = await startSwitch(run, 0);
  // Chosen here, so that the restarted daemon has the same.
  const port = await freePort();
  node = await ClusterNode.start(run, {
    ...{ name: "a", bridge: BRIDGES.a, databaseSocket: ovs.databaseSocket, statusPagePort: port },
    // What a test breaks is not repaired by a pass.
    reclaim: { intervalSeconds: 3600, graceSeconds: 3600 },
  });
  shown = await openWatched(browser, `http://localhost:${port}/`);
  page = shown.page;
});
afterEach(() => {
  expect(shown.misdeeds.splice(0)).toEqual([]);
});
afterAll(async () => {
  await browser?.close();
  await run?.close();
});

const label = (pod: string) => page.locator(`#picture [aria-label*="${pod}"]`).getAttribute("aria-label");
const freshness = () => page.evaluate("document.body.dataset.state");

/** What vhostuserctl says of the pod's only chain. */
async function traced() {
  const [one] = await jsonOf<readonly { readonly chain: readonly Record<string, string>[] }[]>(
    node,
    "trace",
    ["app"],
  );
  const chain = one?.chain ?? [];
  return { end: chain.at(-1) ?? {}, words: chain.map(({ what = "" }) => what) };
}

describe("the status page of a daemon", () => {
  it("shows the node, its switch and that no pod has an interface", async () => {
    await expect.poll(() => page.locator("#health").innerText(), SEEN).toBe("All is well");
    expect(await page.locator("#node").innerText()).toBe("a");
    expect(await page.locator("#picture .bridge").textContent()).toContain("br-a");
    expect(await page.locator("#picture .bridge").textContent()).toContain("Open vSwitch");
    expect(await page.locator("#empty").isVisible()).toBe(true);
  });

  it("shows a pod as soon as it is attached, and what it waits for", async () => {
    const network = await exampleNetwork();
    await new DpdkPod({ run, node, name: "app", port: { network }, mac: "02:00:00:00:00:01" }).attach();
    await expect
      .poll(() => page.locator("#picture .port .name").textContent({ timeout: 20_000 }), SEEN)
      .toMatch(/^vhu/);
    // The page may have asked before all of it was done.
    await expect
      .poll(() => label("tests/app"), SEEN)
      .toMatch(/1 interface, waiting; net1 at socket: .* is not there/);
    expect(await page.locator("#health").innerText()).toBe("1 interface waits for its guest");
  });

  it("shows the pod's chain when it is clicked, word for word as vhostuserctl prints it", async () => {
    await page.locator("#picture [data-pod]").click();
    await page.locator("#chain .cure").waitFor();
    const { end, words } = await traced();
    expect(await page.locator("#chain .links > li:not(.beyond) p").allInnerTexts()).toEqual(words);
    expect(await page.locator("#chain .cure h4").innerText()).toBe("It waits at socket");
    expect(await page.locator("#chain .cure dd").allInnerTexts()).toEqual([end["cause"], end["cure"]]);
  });

  it("follows what breaks meanwhile, in the picture and in the chain", async () => {
    const [one] = (await jsonOf<NodeStatus>(node, "status")).interfaces;
    const name = one?.portName ?? "";
    const other = ["type=dpdkvhostuserclient", `options:vhost-server-path=${run.directory}/other.sock`];
    await ovs.vsctl(
      ...["del-port", name, "--", "add-port", BRIDGES.a, name, "--", "set", "Interface", name, ...other],
    );
    await expect
      .poll(() => page.locator("#chain .cure h4").innerText(), SEEN)
      .toBe("The chain breaks at port");
    const { end } = await traced();
    expect(await page.locator("#chain .cure dd").allInnerTexts()).toEqual([end["cause"], end["cure"]]);
    // The picture is requested before the chain, and may be older.
    await expect.poll(() => label("tests/app"), SEEN).toContain("broken; net1 at port");
    expect(await page.locator("#picture .break .name").textContent()).toBe("port");
    expect(await page.locator("#problem-list li").innerText()).toContain("vhostuserctl trace tests/app");
  });

  it("shows a pod that kubelet admitted and whose network never came", async () => {
    const containers = [{ name: "app", resources: { [SOCKETS]: 1 } }];
    await node.kubelet.admitPod({ namespace: "tests", name: "starting", containers });
    await page.evaluate(REFRESH);
    await expect.poll(() => page.locator("#picture [data-pod]").count(), SEEN).toBe(2);
    await expect
      .poll(() => label("tests/starting"), SEEN)
      .toMatch(/waiting; device sockets-0000\d at record: no interface is attached/);
  });

  it("says since when it is stale while the daemon is down, and goes on after that", async () => {
    await node.killDaemon();
    await expect.poll(freshness, SEEN).toBe("stale");
    expect(await page.locator("#stale").innerText()).toMatch(
      /^Stale since \d.*: the daemon cannot be reached/,
    );
    expect(await page.locator("#picture [data-pod]").count()).toBe(2);
    await node.startDaemon();
    await expect.poll(freshness, SEEN).toBe("live");
    expect(await page.locator("#stale").isVisible()).toBe(false);
    const inVain = /^Failed to load resource: net::ERR_\w+$/;
    // The browser logs each request that fails while the daemon is down; nothing else may be logged.
    expect(shown.misdeeds.splice(0).filter((text) => !inVain.test(text))).toEqual([]);
  });
});
