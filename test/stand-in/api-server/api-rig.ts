import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as eventLoop } from "node:timers/promises";
import { pino } from "pino";
import { KubeApi } from "../../../src/kube-api/client.ts";
import { ManualClock } from "../manual-clock.ts";
import { FakeApiServer } from "./fake-api-server.ts";

/** A client and the server that it talks to, for tests of what uses both. */
export interface ApiRig {
  readonly server: FakeApiServer;
  readonly client: KubeApi;
  /** Directory with the token and the server's certificate. */
  readonly serviceAccountDirectory: string;
  readonly clock: ManualClock;
  readonly logger: ReturnType<typeof pino>;
  /** Level and message of each line that was logged, from info on. */
  readonly logged: readonly string[];
  /** Waits for something that the server takes its time for, and moves the clock meanwhile where `stepMs` is given. */
  until(isSo: () => boolean, stepMs?: number): Promise<void>;
  close(): Promise<void>;
}

export async function startApiRig(): Promise<ApiRig> {
  const directory = await mkdtemp(join(tmpdir(), "kvu-api-"));
  const server = await FakeApiServer.start();
  await writeFile(join(directory, "token"), "first");
  await writeFile(join(directory, "ca.crt"), server.ca);
  const client = new KubeApi({ url: server.url, serviceAccountDirectory: directory, deadlineMs: 60_000 });
  const clock = new ManualClock(Date.UTC(2026, 0, 1));
  const logged: string[] = [];
  const write = (line: string) => {
    const { level, msg } = JSON.parse(line) as { readonly level: number; readonly msg: string };
    logged.push(`${pino.levels.labels[level]} ${msg}`);
  };
  return {
    ...{ server, client, clock, logged, serviceAccountDirectory: directory },
    logger: pino({}, { write }),
    async until(isSo, stepMs = 0) {
      const end = AbortSignal.timeout(60_000);
      while (!isSo()) {
        end.throwIfAborted();
        await (stepMs === 0 ? eventLoop() : clock.advance(stepMs));
      }
    },
    async close() {
      client.close();
      await server.close();
      await rm(directory, { recursive: true });
    },
  };
}
