import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { sendUnaryData, UntypedServiceImplementation } from "@grpc/grpc-js";
import { expect, it } from "vitest";
import { Failure } from "../failure/failure.ts";
import { loadService } from "./load-service.ts";
import { respondWithFailure, toServiceError } from "./status.ts";
import { dialUnix } from "./unix-client.ts";
import { serveUnix } from "./unix-server.ts";

const service = loadService("kubelet/pod-resources-v1.proto", "v1.PodResourcesLister");
const fail = (what: string) => new Failure({ code: "invalid-vmi", what });

it("a failure that quotes half a surrogate pair reaches the caller", async () => {
  const directory = await mkdtemp(join(tmpdir(), "kvu-grpc-"));
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rm(directory, { recursive: true }));
  const implementation: UntypedServiceImplementation = {
    List: (_: unknown, respond: sendUnaryData<unknown>) => respondWithFailure(respond, fail("bad \ud83d")),
  };
  const socketPath = join(directory, "s");
  const server = await serveUnix({ socketPath, services: [{ ...service, implementation }] });
  stack.defer(() => server.close());
  const client = dialUnix(service, socketPath);
  stack.defer(() => client.close());
  await expect(client.call("List", {}, 30_000)).rejects.toMatchObject({
    details: "invalid-vmi: bad \ufffd",
  });
});

it("a message that is cut is well-formed wherever the cut falls, and keeps its end", () => {
  for (const offset of ["", "x"]) {
    const { details } = toServiceError(fail(`${offset}${"💥".repeat(2_000)}; remove it`));
    expect(details.length).toBeLessThanOrEqual(1_000);
    expect(details.isWellFormed()).toBe(true);
    expect(details).toMatch(/^invalid-vmi: x?💥.*; remove it$/);
  }
});

it("an answer that cannot be sent is replaced by one that can", () => {
  const answers: unknown[] = [];
  const respond = (error: unknown) => {
    answers.push(error);
    if (answers.length === 1) throw new URIError("URI malformed");
  };
  respondWithFailure(respond, fail("no"));
  expect(answers).toMatchObject([
    { name: "invalid-vmi" },
    { details: "internal: the failure cannot be sent" },
  ]);
});
