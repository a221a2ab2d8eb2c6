import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { BrowserContextOptions, Page } from "playwright-core";
import type { Chromium } from "./chromium.ts";

/** A page, and a list of what it did but must not do. */
export interface WatchedPage {
  readonly page: Page;
  /** Errors of the console, violations of the policy and dialogs among them, and requests to elsewhere. */
  readonly misdeeds: string[];
  /** Rules of WCAG 2.2, A and AA, and of good practice, that it breaks now (axe-core). @param only default all */
  brokenRules(only?: readonly string[]): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** Opens a page in a window of its own. */
export async function openWatched(
  browser: Chromium,
  url: string,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const context = await browser.open({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const misdeeds: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") misdeeds.push(message.text());
  });
  page.on("pageerror", (error) => misdeeds.push(error.message));
  page.on("dialog", (dialog) => {
    misdeeds.push(`dialog ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin) misdeeds.push(`request to ${request.url()}`);
  });
  await page.goto(url);
  return { page, misdeeds, brokenRules: (only) => brokenRules(page, only), close: () => context.close() };
}

interface AxeResult {
  readonly id: string;
  readonly nodes: readonly { readonly target: readonly unknown[]; readonly failureSummary?: string }[];
}

/** Evaluated by the driver, as the page's own policy lets no other code in. */
async function brokenRules(page: Page, only?: readonly string[]): Promise<readonly string[]> {
  const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
  await page.evaluate(await readFile(axe, "utf8"));
  const options = JSON.stringify(only === undefined ? {} : { runOnly: only });
  const run = `axe.run(document, ${options}).then(({ violations }) => JSON.stringify(violations))`;
  const violations = JSON.parse(await page.evaluate<string>(run)) as readonly AxeResult[];
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary = "" }) => `${id} at ${target.join(" ")}: ${failureSummary}`),
  );
}
