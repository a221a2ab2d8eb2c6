import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";

const TOP = resolve(import.meta.dirname, "../..");

/** Writes generated files, by their path from the top; or only says which are not up to date, and sets the exit code 1. */
export async function writeGenerated(
  files: Readonly<Record<string, string>>,
  { isCheck, cure }: { readonly isCheck: boolean; readonly cure: string },
): Promise<void> {
  for (const [file, text] of Object.entries(files)) {
    const path = join(TOP, file);
    if (!isCheck) {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, text);
    } else if ((await readFile(path, "utf8").catch(() => "")) !== text) {
      console.error(`${file} is not what its source says; run ${cure}`);
      process.exitCode = 1;
    }
  }
}
