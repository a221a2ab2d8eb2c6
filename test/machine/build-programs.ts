import { buildAll } from "../../scripts/build/build-all.ts";

/** Vitest's hook before the first file of a suite: builds everything below dist/ from the current sources. */
export async function setup(): Promise<void> {
  await buildAll();
}
