import { stat } from "node:fs/promises";
import { buildPage } from "./build-page.ts";
import { BUNDLED_PROGRAMS, bundleProgram } from "./bundle-program.ts";
import { compileShim } from "./compile-shim.ts";

/** A built file, path relative to the project. */
export interface BuiltFile {
  readonly file: string;
  readonly bytes: number;
}

/** Builds everything below dist/. */
export async function buildAll(): Promise<readonly BuiltFile[]> {
  const files = [
    ...(await Promise.all(BUNDLED_PROGRAMS.map(bundleProgram))),
    await buildPage(),
    await compileShim({ processor: "x64" }),
    await compileShim({ processor: "arm64" }),
  ];
  return Promise.all(files.map(async (file) => ({ file, bytes: (await stat(file)).size })));
}
