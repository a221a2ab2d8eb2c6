import { open } from "node:fs/promises";
import type { FailureCode } from "../failure/catalogue.ts";
import { Failure, systemCode } from "../failure/failure.ts";

/** Bytes; Kubernetes lets all annotations of a pod together have 256 KiB. */
const MOST_BYTES = 1024 * 1024;

/**
 * The text of a file of somebody else, or undefined where it is not there.
 * @throws Failure with `code` where it is too large or cannot be read
 */
export async function readBounded(file: string, code: FailureCode): Promise<string | undefined> {
  try {
    await using handle = await open(file);
    const { size } = await handle.stat();
    if (size <= MOST_BYTES) {
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(size), 0, size, 0);
      return buffer.toString("utf8", 0, bytesRead);
    }
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw new Failure({
      code,
      what: `it cannot be read: ${systemCode(error) ?? String(error)}`,
      where: file,
      fix: "give the sidecar's user (107 in a rootless pod) the right to read it",
      cause: error,
    });
  }
  throw new Failure({
    code,
    what: `it has more than ${MOST_BYTES} bytes`,
    where: file,
    fix: "look at who writes it: it holds a line or two for each interface",
  });
}
