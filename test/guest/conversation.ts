// A TCP connection that is used all the time.
import { waitUntil } from "../machine/wait-until.ts";
import type { Guest } from "./guest.ts";

const PORT = 7;
const FILE = "/tmp/conversation";

/** Has a guest send back what comes on connections to it. */
export async function answerConversations(guest: Guest): Promise<void> {
  await guest.run(`nc -ll -p ${PORT} -e cat > /dev/null 2>&1 &`);
}

/** Has a guest count on a connection, five numbers a second, to another guest that sends them back. */
export async function openConversation(guest: Guest, address: string): Promise<void> {
  const count = "n=0; while sleep 0.2; do n=$((n + 1)); echo $n; done";
  // One process for one connection: it ends when the connection breaks.
  await guest.run(`(${count}) | nc ${address} ${PORT} > ${FILE} 2>&1 &`);
}

/**
 * Waits until more has come back than now, and checks that nothing is missing from the first number on.
 * @param guest the one that counts, where it is now
 */
export async function conversationGoesOn(guest: Guest): Promise<void> {
  // The last line may have come in part.
  const numbers = async () => (await guest.run(`cat ${FILE}`)).split("\n").slice(0, -1);
  const { length } = await numbers();
  let seen: readonly string[] = [];
  const what = "the TCP connection goes on";
  await waitUntil(
    async () => {
      seen = await numbers();
      // More than was under way.
      return seen.length > length + 2;
    },
    { what, everyMs: 200, detail: () => seen.slice(-3).join() },
  );
  const wrong = seen.findIndex((line, index) => line !== String(index + 1));
  if (wrong >= 0) throw new Error(`${what}: line ${wrong + 1} is ${seen[wrong]}`);
}
