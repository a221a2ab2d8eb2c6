import { readFileSync } from "node:fs";
import { join } from "node:path";
import { PROJECT } from "./kubernetes-parts.ts";

/** Commands of docs/quick-start.md, and the output that the page shows for them. */
export interface Step {
  /** Title of its section, for example `3. Daemon and switch`. */
  readonly section: string;
  /** Whether it needs KubeVirt. */
  readonly kubeVirt: boolean;
  readonly script: string;
  /** What its output begins with: `…` stands for anything, on a line of its own for lines; blanks count as one. */
  readonly output: RegExp;
}

/** Blocks of code that are run, each followed by a block of output: `sh` on any cluster, `shell` on one with KubeVirt. */
const BLOCK = /^```(sh|shell)\n(.*?)^```\n\n```text\n(.*?)^```$/gms;

/** All steps of the page that a test runs, in its order. */
export function quickStartSteps(): readonly Step[] {
  const page = readFileSync(join(PROJECT, "docs/quick-start.md"), "utf8");
  return page.split(/^## /m).flatMap((text) => {
    const [section = ""] = text.split("\n", 1);
    return [...text.matchAll(BLOCK)].map(([, language, script = "", shown = ""]) => ({
      ...{ section, kubeVirt: language === "shell", script },
      output: patternOf(shown),
    }));
  });
}

function patternOf(shown: string): RegExp {
  const line = (text: string) =>
    text
      .split("…")
      .map((part) => part.replaceAll(/[^\w\s]/g, "\\$&").replaceAll(/ +/g, " +"))
      .join(".*");
  const lines = shown.trimEnd().split("\n");
  const body = lines.map((text) => (text === "…" ? "(?:.*\\n)*?" : `${line(text)} *\\n`)).join("");
  return new RegExp(`^${body}`);
}
