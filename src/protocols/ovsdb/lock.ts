import * as z from "zod";
import { Failure } from "../../failure/failure.ts";
import { connectOvsdb } from "./connection.ts";
import { excerpt } from "./message.ts";

const lockedShape = z.object({ locked: z.boolean() });

/**
 * Whether some client holds a lock of the OVSDB server (RFC 7047 section 4.1.8). It asks for the lock itself, on a
 * connection of its own, and gives it back in the same write, so that it cannot keep the lock even if this process
 * stops right after.
 */
export async function isLockHeld(path: string, name: string, signal: AbortSignal): Promise<boolean> {
  let granted = false;
  const onNotification = (method: string) => {
    granted ||= method === "locked"; // the holder was another one who only asked, and it is free now
  };
  const connection = await connectOvsdb(path, signal, onNotification);
  try {
    const [answer] = await Promise.all([
      connection.request("lock", [name], signal),
      connection.request("unlock", [name], signal),
    ]);
    const parsed = lockedShape.safeParse(answer);
    if (parsed.success) return !parsed.data.locked && !granted;
    throw new Failure({
      code: "dataplane-protocol",
      what: `the OVSDB server answered lock with ${excerpt(answer)}`,
      where: path,
    });
  } finally {
    connection.close();
  }
}
