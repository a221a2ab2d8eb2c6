import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { silentLogger } from "../../src/logging/logger.ts";
import { serveStatusPage } from "../../src/status/page/serve-page.ts";
import { exampleLater, exampleTrace } from "../stand-in/records/example-node.ts";
import { startChromium } from "./chromium.ts";
import { smallerPng } from "./smaller-png.ts";

/** A picture for the documentation. */
interface Shot {
  readonly name: string;
  readonly scheme: "light" | "dark";
  readonly height: number;
  /** Name of the pod whose chain is open. */
  readonly pod?: string;
}

const SHOTS: readonly Shot[] = [
  { name: "status-page-light", scheme: "light", height: 1350 },
  { name: "status-page-dark", scheme: "dark", height: 900, pod: "encoder" },
  { name: "status-page-chain", scheme: "light", height: 900, pod: "virt-launcher-probe-k3d9f" },
];

/** Draws the status page of an example in Chromium. @returns the files */
export async function takeScreenshots(directory: string): Promise<readonly string[]> {
  await mkdir(directory, { recursive: true });
  let [reads, elapsed] = [0, 0];
  await using stack = new AsyncDisposableStack();
  const server = await serveStatusPage({
    ...{ address: "127.0.0.1", port: 0, logger: silentLogger },
    readNode: async () => {
      reads += 1;
      return exampleLater(reads);
    },
    // Each request reads the node again.
    now: () => {
      elapsed += 10_000;
      return elapsed;
    },
    readTrace: async (pod) => exampleTrace(pod),
  });
  stack.defer(() => server.close());
  const browser = await startChromium();
  stack.defer(() => browser.close());
  const files: string[] = [];
  for (const { name, scheme, height, pod } of SHOTS) {
    const context = await browser.open({
      viewport: { width: 1440, height },
      colorScheme: scheme,
      reducedMotion: "reduce",
    });
    const page = await context.newPage();
    await page.goto(server.url);
    if (pod !== undefined) {
      await page.locator(`#picture [aria-label*="${pod}"]`).click();
      await page.locator("#chain .links").first().waitFor();
    } else await page.locator("#picture [data-pod]").first().waitFor();
    // Rates are known once a counter has changed twice.
    await page.getByText("pps").first().waitFor();
    const path = join(directory, `${name}.png`);
    await page.mouse.move(0, 0);
    await writeFile(path, smallerPng(await page.screenshot()));
    files.push(path);
    await context.close();
  }
  return files;
}
