import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describeThrown, Failure } from "../failure/failure.ts";

/** Two folders up from here and, in an image or a build, from dist/daemon; scripts/build/build-page.ts makes it. */
export const PAGE_FILE = join(import.meta.dirname, "../../dist/status-page/page.html");

/** The page with everything that it needs in it, and the policy that lets nothing else run. */
export interface PageFile {
  readonly html: string;
  /** Content-Security-Policy (CSP level 3). */
  readonly policy: string;
}

/** @throws Failure `part-missing` where the page was not built, or is not one */
export async function readPageFile(file: string = PAGE_FILE): Promise<PageFile> {
  try {
    const html = await readFile(file, "utf8");
    return { html, policy: policyOf(html) };
  } catch (cause) {
    throw new Failure({
      code: "part-missing",
      what: `the status page cannot be read: ${describeThrown(cause)}`,
      where: file,
      fix: "an image needs dist/status-page beside dist/daemon; npm run build makes it",
      cause,
    });
  }
}

function policyOf(html: string): string {
  const hash = (tag: string) => {
    const all = [...html.matchAll(new RegExp(`<${tag}>(.*?)</${tag}>`, "gs"))];
    const [inner] = all.map(([, inside = ""]) => inside);
    if (all.length !== 1 || inner === undefined)
      throw new Error(`it has ${all.length} <${tag}>, one is needed`);
    return `'sha256-${createHash("sha256").update(inner).digest("base64")}'`;
  };
  return [
    "default-src 'none'",
    `script-src ${hash("script")}`,
    `style-src ${hash("style")}`,
    "connect-src 'self'",
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    // The browser itself refuses to make markup of text.
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; ");
}
