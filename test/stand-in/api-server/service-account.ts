import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { FakeApiServer } from "./fake-api-server.ts";

/** Writes what a pod has of its ServiceAccount: a token that is valid, and the server's certificate. */
export async function writeServiceAccount(
  directory: string,
  { ca }: Pick<FakeApiServer, "ca">,
): Promise<void> {
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, "token"), "first");
  await writeFile(join(directory, "ca.crt"), ca);
}
