import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { loadService } from "./load-service.ts";
import { dialUnix } from "./unix-client.ts";

const service = loadService("kubelet/pod-resources-v1.proto", "v1.PodResourcesLister");
/** grpc-js tries again after 1 s, give or take a fifth. */
const PAST_THE_NEXT_TRY_MS = 2_500;

let directory: string;
let server: Server;
let connections: Socket[];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-grpc-"));
  connections = [];
  server = createServer((socket) => connections.push(socket));
});
afterEach(async () => {
  for (const socket of connections) socket.destroy();
  await new Promise((done) => server.close(done));
  await rm(directory, { recursive: true });
});

const listen = (path: string) => new Promise<void>((done) => server.listen(path, done));

it.each([{}, { "grpc.use_local_subchannel_pool": 1 }])(
  "a client that is closed while nothing listens does not connect later, with %j",
  async (options) => {
    const path = join(directory, "s");
    const client = dialUnix(service, path, options);
    await expect(client.call("List", {}, 30_000)).rejects.toThrow("UNAVAILABLE");
    client.close();
    await listen(path);
    await delay(PAST_THE_NEXT_TRY_MS);
    expect(connections).toHaveLength(0);
  },
);

it("a client that is open connects as soon as something listens", async () => {
  const path = join(directory, "s");
  const client = dialUnix(service, path, { "grpc.use_local_subchannel_pool": 1 });
  await expect(client.call("List", {}, 30_000)).rejects.toThrow("UNAVAILABLE");
  const connected = new Promise((done) => server.once("connection", done));
  await listen(path);
  await connected;
  client.close();
});
