import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { silentLogger } from "../../src/logging/logger.ts";
import type { HttpServer } from "../../src/observe/http-server.ts";
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
import { nodeStatus, tracedInterface } from "../stand-in/records/traced-interface.ts";

const HOSTILE = `"><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}`;

/** The page asks at once when its tab comes to the front. */
const REFRESH = `document.dispatchEvent(new Event("visibilitychange"))`;

let browser: Chromium;
let server: HttpServer;
let status: NodeStatus;
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
    readTrace: async (pod) =>
      pod.name === HOSTILE
        ? {
            node: "n",
            at: 0,
            interfaces: [tracedInterface({ pod: { ...pod, uid: "" }, name: HOSTILE, network: HOSTILE })],
          }
        : exampleTrace(pod),
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

  it("draws 200 interfaces, no wider than the window, and finds one of them", async () => {
    const page = await show(exampleNode(manyExamples(200)));
    expect(await pods().count()).toBe(200);
    expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
    await page.getByLabel("Find").fill("web-x7k2p-001");
    expect(await pods().count()).toBe(1);
    await page.getByLabel("Find").fill("");
    await page.getByLabel("only what needs attention").check();
    expect(await page.locator("#picture .pod.healthy").count()).toBe(0);
    expect(await page.locator("#picture .pod.broken").count()).toBe(22);
    expect(await page.locator("#shown").innerText()).toBe("44 pods shown");
    expect(await page.locator("#problem-list li").count()).toBe(3);
    await page.getByText("19 more").click();
    expect(await page.locator("#more-list li").last().innerText()).toContain("probe-k3d9f-193");
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
  });

  it.each([
    ["light", undefined],
    // No other rule depends on the colours.
    ["dark", ["color-contrast"]],
  ] as const)("passes the accessibility checks in %s, with a chain open", async (colorScheme, rules) => {
    const page = await show(exampleNode());
    await page.emulateMedia({ colorScheme });
    const light = (await page.evaluate<string>("getComputedStyle(document.body).backgroundColor")).startsWith(
      "rgb(24",
    );
    expect(light).toBe(colorScheme === "light");
    await podNamed("probe").click();
    await page.locator("#chain .cure").waitFor();
    expect(await shown.brokenRules(rules)).toEqual([]);
  });

  it("can be used with the keyboard alone", async () => {
    const page = await show(exampleNode());
    const focused = () =>
      page.evaluate<string>(
        "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent",
      );
    await page.getByLabel("only what needs attention").focus();
    await page.keyboard.press("Tab");
    expect(await focused()).toContain("Pod lab/packet-generator");
    await page.keyboard.press("ArrowDown");
    expect(await focused()).toContain("Pod lab/virt-launcher-probe-k3d9f");
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
    await expect.poll(() => pods().count()).toBe(37);
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
      "broken at port : port vhu7c41e090004d does not exist in the switch",
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
