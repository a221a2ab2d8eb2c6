import { connect } from "node:net";
import { systemCode } from "../../failure/failure.ts";

const LIMIT_MS = 2_000;

/** Connects to a unix socket and goes away. @returns the system's code of what failed; undefined where somebody listens */
export function whyUnreached(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ path });
    const end = (reason: string | undefined) => {
      socket.destroy();
      resolve(reason);
    };
    socket.setTimeout(LIMIT_MS, () => end("ETIMEDOUT"));
    socket.once("connect", () => end(undefined));
    socket.on("error", (error) => end(systemCode(error) ?? error.message));
  });
}
