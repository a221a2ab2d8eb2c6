import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { JsonStream } from "./json-stream.ts";
import { monitorTables, type RowChange } from "./monitor.ts";

it("a monitor hears the first rows before a change that comes in one piece with them", async () => {
  const directory = await mkdtemp(join(tmpdir(), "ovsdb-"));
  const path = join(directory, "db.sock");
  const rows = (state: string) => ({ Interface: { u1: { new: { link_state: state } } } });
  const server = createServer((peer) => {
    const stream = new JsonStream();
    peer.on("error", () => undefined);
    peer.on("data", (chunk) => {
      for (const call of stream.push(chunk)) {
        const { id } = call as { readonly id: number };
        const reply = JSON.stringify({ result: rows("down"), error: null, id });
        peer.write(reply + JSON.stringify({ method: "update", params: [null, rows("up")], id: null }));
      }
    });
  });
  const stop = new AbortController();
  try {
    await once(server.listen(path), "listening");
    const heard: unknown[] = [];
    const onChanges = (changes: readonly RowChange[]) => {
      heard.push(...changes.map((change) => change.new?.["link_state"]));
      if (heard.length === 2) stop.abort();
    };
    const columns = { Interface: ["link_state"] };
    await monitorTables({ path, database: "Open_vSwitch", columns, onChanges }, stop.signal);
    expect(heard).toEqual(["down", "up"]);
  } finally {
    server.close();
    await rm(directory, { recursive: true });
  }
});
