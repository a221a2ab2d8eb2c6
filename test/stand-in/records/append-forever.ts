// Appends to a journal until it is killed, and prints what was confirmed: `key value`, a line each.
import { Journal } from "../../../src/journal/journal.ts";
import { silentLogger } from "../../../src/logging/logger.ts";

const { journal, content } = await Journal.open({
  directory: process.argv[2] ?? "",
  version: 2,
  parse: String,
  durable: true,
  logger: silentLogger,
  compactAbove: 300,
});
const first = Math.max(0, ...[...content.values.values()].map(Number)) + 1;
for (let value = first; ; value += 3) {
  await Promise.all(
    [value, value + 1, value + 2].map(async (each) => {
      const key = `key-${each % 5}`;
      await journal.append(key, String(each));
      process.stdout.write(`${key} ${each}\n`);
    }),
  );
}
