import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { silentLogger } from "../../src/logging/logger.ts";
import type { HttpServer } from "../../src/observe/http-server.ts";
import type { NodeAddresses } from "../../src/status/addresses-shape.ts";
import { pageWithSnapshot } from "../../src/status/page/page-snapshot.ts";
import { serveStatusPage } from "../../src/status/page/serve-page.ts";
import type { NodeStatus } from "../../src/status/shape.ts";
import { type Chromium, startChromium } from "../browser/chromium.ts";
import { openWatched, type WatchedPage } from "../browser/watched-page.ts";
import {
  EXAMPLE_PODS,
  exampleLater,
  exampleNode,
  exampleTrace,
  manyExamples,
} from "../stand-in/records/example-node.ts";
import { leakedAddresses, nodeAddresses } from "../stand-in/records/node-addresses.ts";
import { nodeStatus, tracedInterface } from "../stand-in/records/traced-interface.ts";

const HOSTILE = `"><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}`;

/** The page asks at once when its tab comes to the front. */
const REFRESH = `document.dispatchEvent(new Event("visibilitychange"))`;

let browser: Chromium;
let server: HttpServer;
let status: NodeStatus;
let addresses: NodeAddresses | undefined;
let shown: WatchedPage;
let elapsed = 0;

beforeAll(async () => {
  browser = await startChromium();
  server = await serveStatusPage({
    ...{ address: "127.0.0.1", port: 0, logger: silentLogger },
    // Each request reads the node again.
    now: () => {
      elapsed += 10_000;
      return elapsed;
    },
    readNode: async () => status,
    readAddresses: async () => addresses,
    readTrace: async (pod) =>
      pod.name === HOSTILE
        ? {
            node: "n",
            at: 0,
            interfaces: [tracedInterface({ pod: { ...pod, uid: "" }, name: HOSTILE, network: HOSTILE })],
          }
        : exampleTrace(pod, [...EXAMPLE_PODS, ...manyExamples(300)]),
  });
  status = nodeStatus();
  shown = await openWatched(browser, server.url);
});
afterEach(() => {
  expect(shown.misdeeds.splice(0)).toEqual([]);
});
afterAll(async () => {
  await server?.close();
  await browser?.close();
});

/** Opens the page on a node. */
async function show(next: NodeStatus): Promise<Page> {
  await shown.page.goto("about:blank");
  // Only now: the page that was there before would reload itself for another release.
  status = next;
  await shown.page.goto(server.url);
  await shown.page.locator("#health svg").waitFor();
  return shown.page;
}

const pods = () => shown.page.locator("#picture [data-pod]");
const podNamed = (name: string) => shown.page.locator(`#picture [aria-label*="${name}"]`);

describe("the status page in a browser", () => {
  it("says that no pod has an interface yet, and shows the bridges", async () => {
    const page = await show(nodeStatus({ interfaces: [], allocations: [] }));
    await expect
      .poll(() => page.locator("#empty").innerText())
      .toContain("No pod has a vhost-user interface");
    expect(await page.locator("#picture .bridge").count()).toBe(1);
    expect(await page.locator("#health").innerText()).toBe("All is well");
    expect(await page.locator("#problems").isVisible()).toBe(false);
  });

  it("draws one interface from pod to bridge", async () => {
    const page = await show(nodeStatus());
    expect(await pods().count()).toBe(1);
    expect(await page.locator("#picture .line.ok").count()).toBe(3);
    expect(await page.locator("#picture .break").count()).toBe(0);
  });

  it("shows pools and leaked addresses where the node has an IPAM agent", async () => {
    const page = await show(nodeStatus());
    expect(await page.locator("#addresses").isVisible()).toBe(false);
    const hostile = leakedAddresses({ interface: HOSTILE, pod: { namespace: "a", name: HOSTILE, uid: "" } });
    addresses = nodeAddresses({ leaks: [leakedAddresses(), hostile] });
    await page.evaluate(REFRESH);
    await page.locator("#addresses").waitFor();
    expect(await page.locator("#addresses tbody tr").allInnerTexts()).toEqual([
      "blue-v4\t2\t20\t11\t1\t380 of 1007 (37%)",
    ]);
    expect(await page.locator("#addresses li").first().innerText()).toContain("its pod still exists");
    expect(await page.locator("#addresses li").last().innerText()).toContain(HOSTILE);
    expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
    addresses = undefined;
    await page.evaluate(REFRESH);
    await page.locator("#addresses").waitFor({ state: "hidden" });
  });

  it("draws 200 interfaces in parts, no wider than the window, and finds one of them", async () => {
    const page = await show(exampleNode(manyExamples(200)));
    expect(await page.locator("#shown").innerText()).toBe("20 of 200 pods shown");
    expect(await page.evaluate("document.documentElement.scrollHeight")).toBeLessThan(3_000);
    expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
    const more = page.getByText("Show more pods");
    for (let shown = 20; shown < 200; shown += 20) await more.click();
    expect(await pods().count()).toBe(200);
    expect(await more.isVisible()).toBe(false);
    await page.getByLabel("Find").fill("web-x7k2p-001");
    expect(await pods().count()).toBe(1);
    await page.getByLabel("Find").fill("");
    await page.getByLabel("only what needs attention").check();
    expect(await page.locator("#shown").innerText()).toBe("20 of 44 pods shown");
    await more.click();
    await more.click();
    expect(await page.locator("#shown").innerText()).toBe("44 pods shown");
    expect(await page.locator("#picture .pod.healthy").count()).toBe(0);
    expect(await page.locator("#picture .pod.broken").count()).toBe(22);
    expect(await page.locator("#problem-list li").count()).toBe(3);
    await page.getByText("19 more").click();
    expect(await page.locator("#more-list li").last().innerText()).toContain("probe-k3d9f-193");
  });

  it("opens the chain of a problem by its link, also by the keyboard and of a pod that is not drawn", async () => {
    const page = await show(exampleNode(manyExamples(300)));
    const link = page.locator("#problem-list a").first();
    await link.focus();
    // The page redraws meanwhile and keeps the focus.
    await page.evaluate(REFRESH);
    await page.keyboard.press("Enter");
    await page.locator("#chain .cure").waitFor();
    expect(await page.locator("#chain-title").innerText()).toBe("lab/virt-launcher-probe-k3d9f-004");
    await page.getByText("30 more").click();
    await page.locator("#more-list a").last().click();
    await page.getByText("probe-k3d9f-292", { exact: false }).first().waitFor();
    await expect
      .poll(() => page.locator("#chain-title").innerText())
      .toBe("lab/virt-launcher-probe-k3d9f-292");
    expect(await page.locator("#picture .selected .name").first().innerText()).toContain("k3d9f-292");
    await page.goBack();
    await expect.poll(() => page.locator("#chain-title").innerText()).toContain("k3d9f-004");
  });

  it("shows healthy, waiting and broken by shape and by word, not by colour alone", async () => {
    const page = await show(exampleNode());
    const shapes = await page.evaluate<string[]>(
      `["healthy", "degraded", "broken"].map((state) =>
        document.querySelector(document.querySelector("#picture .pod." + state + " > .card use").getAttribute("href") + " .outline").getAttribute("d"))`,
    );
    expect(new Set(shapes).size).toBe(3);
    const lines = await page.evaluate<string[]>(
      `["ok", "waiting", "broken", "unknown"].map((state) => {
        const line = getComputedStyle(document.querySelector("#picture .line." + state), "::before");
        return line.borderTopStyle + " " + line.borderTopWidth;
      })`,
    );
    expect(new Set(lines).size).toBe(4);
    expect(await page.locator("#picture .break .name").allTextContents()).toEqual(["port", "link"]);
    expect(await page.locator(".counts li").allInnerTexts()).toEqual(["7 healthy", "1 waiting", "1 broken"]);
    expect(await page.locator("#more-problems").isVisible()).toBe(false);
    expect(await page.locator("#more-count").textContent()).toBe("0 more");
  });

  it.each([
    ["light", undefined],
    // No other rule depends on the colours.
    ["dark", ["color-contrast"]],
  ] as const)("passes the accessibility checks in %s, with a chain open", async (colorScheme, rules) => {
    addresses = nodeAddresses({ leaks: [leakedAddresses()] });
    const page = await show(exampleNode());
    await page.emulateMedia({ colorScheme });
    const light = (await page.evaluate<string>("getComputedStyle(document.body).backgroundColor")).startsWith(
      "rgb(24",
    );
    expect(light).toBe(colorScheme === "light");
    await podNamed("probe").click();
    await page.locator("#chain .cure").waitFor();
    await page.locator("#addresses").waitFor();
    expect(await shown.brokenRules(rules)).toEqual([]);
    addresses = undefined;
  });

  it("can be used with the keyboard alone", async () => {
    const page = await show(exampleNode());
    const focused = () =>
      page.evaluate<string>(
        "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent",
      );
    await page.getByLabel("only what needs attention").focus();
    await page.keyboard.press("Tab");
    expect(await focused()).toContain("Pod lab/virt-launcher-probe-k3d9f");
    await page.keyboard.press("ArrowDown");
    expect(await focused()).toContain("Pod media/virt-launcher-encoder-2mx8w");
    await page.keyboard.press("ArrowUp");
    expect(await page.evaluate("getComputedStyle(document.activeElement).outlineWidth")).toBe("3px");
    await page.keyboard.press("Enter");
    await page.locator("#chain .cure").waitFor();
    expect(await focused()).toBe("lab/virt-launcher-probe-k3d9f");
    await page.keyboard.press("Tab");
    expect(await focused()).toBe("Close the chain");
    await page.keyboard.press("Escape");
    expect(await page.locator("#chain").isVisible()).toBe(false);
    expect(await focused()).toContain("Pod lab/virt-launcher-probe-k3d9f");
    await page.keyboard.press("End");
    expect(await focused()).toContain("Pod edge/gateway-1");
  });

  it("keeps the focus where it is when the node changes", async () => {
    const page = await show(exampleNode());
    await podNamed("encoder").focus();
    status = exampleNode(manyExamples(30).concat(EXAMPLE_PODS));
    await page.evaluate(REFRESH);
    await expect.poll(() => pods().count()).toBe(20);
    expect(await page.evaluate("document.activeElement.getAttribute('aria-label')")).toContain(
      "encoder-2mx8w,",
    );
  });

  it("shows pods with their bridge, and names the bridge of an interface that is on another", async () => {
    const page = await show(exampleNode());
    const groups = await page.locator("#picture .group").all();
    const shownIn = groups.map(async (group) => [
      await group.locator(".bridge .name").textContent(),
      await group.locator(".pod").count(),
      await group.locator(".elsewhere").allTextContents(),
    ]);
    expect(await Promise.all(shownIn)).toEqual([
      ["br-dpdk", 5, []],
      ["blue", 2, ["br-dpdk"]],
    ]);
  });

  it("has everything that is drawn as a list with words, for screen readers", async () => {
    const page = await show(exampleNode());
    const rows = await page.locator("#picture").ariaSnapshot();
    for (const words of [
      "socket there vhu7c41e090002d link up, 4 pairs of queues 12 dropped",
      "waiting at link : down",
      "broken at port : the switch has no port vhu7c41e090004d of this pod",
    ])
      expect(rows).toContain(words);
    expect(
      await page
        .getByRole("listitem")
        .filter({ has: page.getByRole("list") })
        .count(),
    ).toBe(7);
  });

  it("shows the rate of each port, once its counter has changed twice", async () => {
    const page = await show(exampleLater(1));
    const rates = () => page.locator("#picture .rate").allTextContents();
    expect(await rates()).toEqual([]);
    expect(await page.locator("#picture .dropped").allTextContents()).toEqual(["12 dropped"]);
    status = exampleLater(2);
    await page.evaluate(REFRESH);
    await page.getByText("last checked 21s ago").waitFor();
    status = exampleLater(3);
    await page.evaluate(REFRESH);
    await page.getByText("1.31 Mpps").waitFor();
    expect(await rates()).toEqual(["1.31 Mpps", "524 kpps", "105 pps", "262 kpps", "1.83 Mpps"]);
    expect(await page.locator("#picture .dropped").allTextContents()).toEqual(["12 dropped"]);
  });

  it("reloads itself when another release answers, and shows the same pod again", async () => {
    const page = await show(exampleNode());
    await podNamed("gateway-0").click();
    await page.evaluate("globalThis.isOld = true");
    status = { ...status, version: "9.9.9" };
    await page.evaluate(REFRESH);
    // Not by waitForFunction, whose polling code the page's policy refuses.
    const isNew = () => page.evaluate("globalThis.isOld === undefined").catch(() => false);
    await expect.poll(isNew).toBe(true);
    await page.locator("#chain .links").first().waitFor();
    expect(await page.locator("#chain-title").innerText()).toBe("edge/gateway-0");
    expect(await page.locator("#about").innerText()).toContain("kube-vhostuser 9.9.9");
  });

  it("moves nothing where the system asks for reduced motion", async () => {
    const page = await show(nodeStatus());
    const animation = async (reducedMotion: "reduce" | "no-preference") => {
      await page.emulateMedia({ reducedMotion });
      return page.evaluate("getComputedStyle(document.querySelector('.pulse')).animationName");
    };
    expect([await animation("reduce"), await animation("no-preference")]).toEqual(["none", "pulse"]);
  });

  it("shows hostile names as text, everywhere", async () => {
    const pod = { namespace: HOSTILE, name: HOSTILE, uid: "" };
    const names = {
      pod,
      name: HOSTILE,
      network: HOSTILE,
      bridge: HOSTILE,
      portName: HOSTILE,
      device: HOSTILE,
    };
    const { holder: _, deviceInfo: __, differences: ___, port: ____, ...one } = tracedInterface(names);
    const page = await show(nodeStatus({ interfaces: [one], node: HOSTILE }));
    await pods().click();
    await page.locator("#chain .links").waitFor();
    expect(await page.locator("#node").innerText()).toBe(HOSTILE);
    expect(await page.locator("#chain-title").innerText()).toBe(`${HOSTILE}/${HOSTILE}`);
    expect(await page.locator("#picture .card").textContent()).toBe(`${HOSTILE}/${HOSTILE}`);
    expect(await page.locator("#picture .port .name").textContent()).toBe(HOSTILE);
    expect(await page.title()).toContain(HOSTILE);
    expect(await page.locator("img, main script, [onerror]").count()).toBe(0);
    expect(page.url()).toMatch(/#pod=[0-9a-f]{16}$/);
  });

  it("is a file that shows one moment and says of when, where it has a snapshot in it", async () => {
    const traced = EXAMPLE_PODS.flatMap(
      ({ pod: [namespace, name] }) => exampleTrace({ namespace, name }).interfaces,
    );
    await using directory = await mkdtempDisposable(join(tmpdir(), "kvu-snapshot-"));
    const file = join(directory.path, "page.html");
    const hostile = { ...exampleNode(), node: HOSTILE };
    await writeFile(file, await pageWithSnapshot(hostile, traced));
    const opened = await openWatched(browser, pathToFileURL(file).href);
    const { page } = opened;
    expect(await page.locator("#fresh").innerText()).toMatch(/^snapshot of .*2026/);
    expect(await page.locator("#node").innerText()).toBe(HOSTILE);
    expect(await page.locator("#picture [data-pod]").count()).toBe(7);
    await page.locator('#picture [aria-label*="probe"]').click();
    expect(await page.locator("#chain .cure").innerText()).toContain("The chain breaks at port");
    await page.keyboard.press("Escape");
    expect(await page.locator("#stale").isVisible()).toBe(false);
    expect(opened.misdeeds).toEqual([]);
    await opened.close();
  });

  it("runs no code but the page's own", async () => {
    const page = await show(nodeStatus());
    const violations = await page.evaluate<string[]>(`new Promise((resolve) => {
      const seen = [];
      addEventListener("securitypolicyviolation", ({ effectiveDirective }) => {
        seen.push(effectiveDirective);
        if (seen.length === 2) resolve(seen);
      });
      const script = document.createElement("script");
      script.append("globalThis.wasRun = true");
      try { document.body.append(script); } catch (error) { seen.push(error.name); }
      fetch("http://127.0.0.1:1/").catch(() => undefined);
    })`);
    expect(violations).toContain("connect-src");
    expect(await page.evaluate("globalThis.wasRun")).toBeUndefined();
    // These were asked for.
    shown.misdeeds.length = 0;
  });
});
