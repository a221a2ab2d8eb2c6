import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { expect, it } from "vitest";
import { silentLogger } from "../logging/logger.ts";
import type { StatusSource } from "../status/status-source.ts";
import { startStatusPage } from "./start-status.ts";

const places = { cniSocket: "/nowhere/cni.sock", recordsDirectory: "/nowhere" };

/** Nothing of it may be read before a request. */
const untouched = new Proxy({} as StatusSource, {
  get: (_, key) => {
    throw new Error(`${String(key)} was read`);
  },
});

it("the status page is off unless it is enabled", async () => {
  const statusPage = { enabled: false, address: "127.0.0.1", port: 0 };
  expect(await startStatusPage({ ...places, statusPage }, untouched, silentLogger)).toBeUndefined();
});

it("a daemon starts though its status page cannot be served, and its log says why", async () => {
  const taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const { port } = taken.address() as AddressInfo;
  const errors: unknown[] = [];
  const logger = { ...silentLogger, error: (fields: unknown) => errors.push(fields) } as never;
  const statusPage = { enabled: true, address: "127.0.0.1", port };
  expect(await startStatusPage({ ...places, statusPage }, untouched, logger)).toBeUndefined();
  // Which of the two is missing here: the page is made by the build.
  expect(errors).toMatchObject([{ err: { code: expect.stringMatching(/^(invalid-config|part-missing)$/) } }]);
  taken.close();
});
