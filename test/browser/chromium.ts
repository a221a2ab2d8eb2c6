import { access } from "node:fs/promises";
import { type BrowserContext, type BrowserContextOptions, chromium } from "playwright-core";
import { Failure } from "../../src/failure/failure.ts";

/** Debian's Chromium. */
const PROGRAM = "/usr/bin/chromium";

/** It runs as root in a container, and must connect to the page's own server only. */
const ARGUMENTS = [
  ...["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
  ...["--disable-component-update", "--disable-sync"],
];

/** A browser with an empty profile of its own. */
export interface Chromium {
  /** A new window with no memory of others. */
  open(options?: BrowserContextOptions): Promise<BrowserContext>;
  close(): Promise<void>;
}

/** Starts Chromium, headless. @throws Failure part-missing where it is not installed */
export async function startChromium(): Promise<Chromium> {
  await access(PROGRAM).catch((cause: unknown) => {
    const fix = "apt-get install --no-install-recommends chromium";
    throw new Failure({ code: "part-missing", what: `${PROGRAM} is not installed`, fix, cause });
  });
  const browser = await chromium.launch({ executablePath: PROGRAM, args: ARGUMENTS });
  return { open: (options) => browser.newContext(options), close: () => browser.close() };
}
