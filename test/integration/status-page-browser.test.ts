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

/** The page looks at once when its tab comes to the front. */
const LOOK_NOW = `document.dispatchEvent(new Event("visibilitychange"))`;

let browser: Chromium;
let server: HttpServer;
let status: NodeStatus;
let shown: WatchedPage;
let elapsed = 0;

beforeAll(async () => {
  browser = await startChromium();
  server = await serveStatusPage({
    ...{ address: "127.0.0.1", port: 0, logger: silentLogger },
    // Each look is a new one.
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

/** Shows a node to a reader who has just come. */
async function show(next: NodeStatus): Promise<Page> {
  await shown.page.goto("about:blank");
  // Only now: the page that was there before would load itself anew for another release.
  status = next;
  await shown.page.goto(server.url);
  await shown.page.locator("#health svg").waitFor();
  return shown.page;
}

const pods = () => shown.page.locator("#picture [data-pod]");
const podNamed = (name: string) => shown.page.locator(`#picture [aria-label*="${name}"]`);

describe("the status page in a browser", () => {
  it("says that nobody has an interface yet, and shows the bridges", async () => {
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

  it("tells healthy, waiting and broken by shape and by word, not by colour alone", async () => {
    const page = await show(exampleNode());
    const shapes = await page.evaluate<string[]>(
      `["healthy", "degraded", "broken"].map((state) =>
        document.querySelector("#picture .faces ." + state + " > .mark .outline").getAttribute("d"))`,
    );
    expect(new Set(shapes).size).toBe(3);
    const dashes = await page.evaluate<string[]>(
      `["ok", "waiting", "broken", "unknown"].map((state) =>
        getComputedStyle(document.querySelector("#picture .line." + state)).strokeDasharray)`,
    );
    expect(new Set(dashes).size).toBe(4);
    expect(await page.locator("#picture .break text").allTextContents()).toEqual(["port", "link"]);
    expect(await page.locator(".counts li").allInnerTexts()).toEqual(["7 healthy", "1 waiting", "1 broken"]);
  });

  it.each([
    ["light", undefined],
    // Nothing else depends on it.
    ["dark", ["color-contrast"]],
  ] as const)(
    "breaks no rule of accessibility in %s, with a chain and the table open",
    async (colorScheme, rules) => {
      const page = await show(exampleNode());
      await page.emulateMedia({ colorScheme });
      const light = (
        await page.evaluate<string>("getComputedStyle(document.body).backgroundColor")
      ).startsWith("rgb(24");
      expect(light).toBe(colorScheme === "light");
      await podNamed("probe").click();
      await page.locator("#chain .cure").waitFor();
      await page.getByText("The same as a table").click();
      await page.locator("#rows tr").first().waitFor();
      expect(await shown.brokenRules(rules)).toEqual([]);
    },
  );

  it("is worked with the keyboard alone", async () => {
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
    expect(
      await page.evaluate("getComputedStyle(document.activeElement.querySelector('.card')).strokeWidth"),
    ).toBe("4px");
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

  it("leaves the focus where it is when the node changes", async () => {
    const page = await show(exampleNode());
    await podNamed("encoder").focus();
    status = exampleNode(manyExamples(30).concat(EXAMPLE_PODS));
    await page.evaluate(LOOK_NOW);
    await expect.poll(() => pods().count()).toBe(37);
    expect(await page.evaluate("document.activeElement.getAttribute('aria-label')")).toContain(
      "encoder-2mx8w,",
    );
  });

  it("tells what passes each port, once the switch has counted twice", async () => {
    const page = await show(exampleLater(1));
    const told = () => page.locator("#picture .row > .note").allTextContents();
    expect(await told()).toEqual(["12 dropped"]);
    status = exampleLater(2);
    await page.evaluate(LOOK_NOW);
    await page.getByText("1.31 Mpps").waitFor();
    expect(await told()).toEqual(["1.31 Mpps", "524 kpps, 12 dropped", "105 pps", "262 kpps"]);
  });

  it("is the page of the release that answers, and shows the same pod again", async () => {
    const page = await show(exampleNode());
    await podNamed("gateway-0").click();
    await page.evaluate("globalThis.isOld = true");
    status = { ...status, version: "9.9.9" };
    await page.evaluate(LOOK_NOW);
    // Not by waitForFunction: what it looks with again later is code that the page's policy lets nobody evaluate.
    const isNew = () => page.evaluate("globalThis.isOld === undefined").catch(() => false);
    await expect.poll(isNew).toBe(true);
    await page.locator("#chain .links").first().waitFor();
    expect(await page.locator("#chain-title").innerText()).toBe("edge/gateway-0");
    expect(await page.locator("#about").innerText()).toContain("kube-vhostuser 9.9.9");
  });

  it("moves nothing for those who do not want it", async () => {
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
    await page.getByText("The same as a table").click();
    await page.locator("#rows tr").waitFor();
    expect(await page.locator("#node").innerText()).toBe(HOSTILE);
    expect(await page.locator("#chain-title").innerText()).toBe(`${HOSTILE}/${HOSTILE}`);
    expect(await page.locator("#rows th").innerText()).toBe(`${HOSTILE}/${HOSTILE}`);
    expect(await page.title()).toContain(HOSTILE);
    expect(await page.locator("img, main script, [onerror]").count()).toBe(0);
    expect(page.url()).toMatch(/#pod=[0-9a-f]{16}$/);
  });

  it("lets no code in that is not the page's own", async () => {
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
