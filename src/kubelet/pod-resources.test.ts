import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { handleUnaryCall } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadService } from "../grpc/load-service.ts";
import { serveUnix, type UnixServer } from "../grpc/unix-server.ts";
import { listHeldDevices } from "./pod-resources.ts";

let directory: string;
let socketPath: string;
let server: UnixServer | undefined;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "pod-resources-"));
  socketPath = join(directory, "kubelet.sock");
});

afterEach(async () => {
  await server?.close();
  server = undefined;
  await rm(directory, { recursive: true, force: true });
});

async function serveList(list: handleUnaryCall<object, object>): Promise<void> {
  const { definition } = loadService("kubelet/pod-resources-v1.proto", "v1.PodResourcesLister");
  server = await serveUnix({ socketPath, services: [{ definition, implementation: { List: list } }] });
}

const answering = (answer: object): Promise<void> => serveList((_call, respond) => respond(null, answer));
const ask = (signal = new AbortController().signal) => listHeldDevices({ socketPath, signal });
const entry = (resource_name: string, ...device_ids: string[]) => ({ resource_name, device_ids });

describe("the list of held devices", () => {
  it("joins the entries of one resource, and shows containers and pods without devices", async () => {
    await answering({
      pod_resources: [
        {
          name: "vm",
          namespace: "ns",
          containers: [
            {
              name: "compute",
              devices: [entry("v/s", "b"), entry("v/d", "x"), entry("v/s", "a", "b")],
            },
            {
              name: "sidecar",
              dynamic_resources: [
                { claim_namespace: "ns", claim_name: "net", claim_resources: [{ driver_name: "d" }] },
                { claim_namespace: "ns", claim_name: "other" },
              ],
            },
          ],
        },
        { name: "plain", namespace: "ns" },
      ],
    });
    expect(await ask()).toEqual([
      {
        podNamespace: "ns",
        podName: "vm",
        containers: [
          {
            name: "compute",
            devices: [
              { resource: "v/s", ids: ["b", "a"] },
              { resource: "v/d", ids: ["x"] },
            ],
          },
          { name: "sidecar", devices: [], claims: ["ns/net", "ns/other"] },
        ],
      },
      { podNamespace: "ns", podName: "plain", containers: [] },
    ]);
  });

  it("is empty when kubelet has no pods", async () => {
    await answering({});
    expect(await ask()).toEqual([]);
  });

  it("is a failure, not empty, when nothing listens", async () => {
    await expect(ask()).rejects.toMatchObject({ name: "Failure", code: "kubelet-unavailable" });
  });

  it("is a failure when kubelet refuses", async () => {
    await serveList((_call, respond) => respond({ code: 8, details: "rejected by rate limit" }));
    await expect(ask()).rejects.toMatchObject({
      code: "kubelet-unavailable",
      message: expect.stringContaining("rejected by rate limit"),
    });
  });

  it("may exceed the 4 MiB that gRPC accepts by default", async () => {
    const ids = Array.from(
      { length: 95_000 },
      (_, index) => `a-device-with-a-long-name-to-fill-the-list-${index}`,
    );
    await answering({
      pod_resources: [
        { name: "vm", namespace: "ns", containers: [{ name: "c", devices: [entry("v/s", ...ids)] }] },
      ],
    });
    const [pod] = await ask();
    expect(pod?.containers[0]?.devices[0]?.ids).toHaveLength(95_000);
  });

  it("ends with the signal while kubelet does not answer", async () => {
    const abort = new AbortController();
    await serveList(() => abort.abort(new Error("shutting down")));
    await expect(ask(abort.signal)).rejects.toMatchObject({
      code: "kubelet-unavailable",
      message: expect.stringContaining("shutting down"),
    });
  });

  it("is not requested when the signal fired before", async () => {
    await answering({});
    await expect(ask(AbortSignal.abort(new Error("too late")))).rejects.toThrow("too late");
  });
});
