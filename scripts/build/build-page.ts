import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";
import { placeFile } from "./place-file.ts";

const BROWSER = "src/status/page/browser";

/** The status page as one file with style and code in it, so that its policy can name them by their hash. */
export async function buildPage(outfile = "dist/status-page/page.html"): Promise<string> {
  const [frame, style, code] = await Promise.all([
    readFile(join(BROWSER, "page.html"), "utf8"),
    bundled("page.css"),
    bundled("main.ts"),
  ]);
  const page = frame
    .replace("<style></style>", () => `<style>${style}</style>`)
    .replace("<script></script>", () => `<script>${code}</script>`);
  await placeFile(outfile, page);
  return outfile;
}

async function bundled(entry: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(BROWSER, entry)],
    bundle: true,
    write: false,
    minify: true,
    format: "iife",
    target: ["chrome120", "firefox121", "safari17.4"],
    logLevel: "warning",
  });
  return outputFiles
    .map(({ text }) => text)
    .join("")
    .trim();
}
