import { stat } from "node:fs/promises";
import type { Narrator } from "../narrator.mjs";
import { buildPage } from "./build-page.ts";
import { BUNDLED_PROGRAMS, bundleProgram } from "./bundle-program.ts";
import { compileShim, EXECUTABLES, type ShimProcessor } from "./compile-shim.ts";

/** A built file, path relative to the project. */
export interface BuiltFile {
  readonly file: string;
  readonly bytes: number;
}

/** Builds everything below dist/ as a step. */
export function buildStep(narrator: Narrator, processors?: readonly ShimProcessor[]): Promise<void> {
  return narrator.step("build", "programs, status page and CNI executable", async () => {
    const files = await buildAll(processors);
    return { say: files.map(({ file, bytes }) => `${file} ${Math.ceil(bytes / 1024)} KiB`).join(", ") };
  });
}

/** Builds everything below dist/. @param processors those that the CNI executable is built for */
export async function buildAll(
  processors: readonly ShimProcessor[] = ["x64", "arm64"],
): Promise<readonly BuiltFile[]> {
  const files = [
    ...(await Promise.all(BUNDLED_PROGRAMS.map(bundleProgram))),
    await buildPage(),
    ...(await Promise.all(
      processors.flatMap((processor) =>
        EXECUTABLES.map((executable) => compileShim({ executable, processor })),
      ),
    )),
  ];
  return Promise.all(files.map(async (file) => ({ file, bytes: (await stat(file)).size })));
}
