import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { type IncomingHttpHeaders, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { exampleNode, exampleTrace, manyExamples } from "../../../test/stand-in/records/example-node.ts";
import { nodeStatus, tracedInterface } from "../../../test/stand-in/records/traced-interface.ts";
import { silentLogger } from "../../logging/logger.ts";
import type { HttpServer } from "../../observe/http-server.ts";
import type { NodeStatus } from "../shape.ts";
import { type PodName, podId } from "./describe-node.ts";
import type { PageNode, PodChains } from "./page-shape.ts";
import { serveStatusPage } from "./serve-page.ts";

const PAGE = "<!doctype html><style>p{}</style><script>start()</script>";
const HOSTILE = `"><img src=x onerror=alert(1)><script>\u202e\u0007`;

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

let directory: string;
let server: HttpServer;
let status: NodeStatus;
let readNode: () => Promise<NodeStatus>;
/** What was read, in order. */
let read: (PodName | "node")[];
let now: number;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-page-"));
  const file = join(directory, "page.html");
  await writeFile(file, PAGE);
  status = exampleNode();
  readNode = async () => status;
  [read, now] = [[], 0];
  server = await serveStatusPage({
    ...{ address: "127.0.0.1", port: 0, logger: silentLogger, file, now: () => now },
    readNode: () => {
      read.push("node");
      return readNode();
    },
    readTrace: async (pod) => {
      read.push(pod);
      return exampleTrace(pod);
    },
  });
});
afterEach(async () => {
  await server.close();
  await rm(directory, { recursive: true });
});

function ask(path: string, headers: Record<string, string> = {}, method = "GET"): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request(server.url + path, { method, headers, agent: false }, (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (chunk) => {
        body += chunk;
      });
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body }),
      );
    });
    sent.on("error", reject).end();
  });
}
const node = async () => JSON.parse((await ask("/api/node")).body) as PageNode;
const chain = async (id: string) => JSON.parse((await ask(`/api/chain?pod=${id}`)).body) as PodChains;

describe("the status page's server", () => {
  it.each(["/", "/api/node", "/api/chain", "/nothing"])(
    "says at %s that it may be neither kept, framed, guessed at nor used elsewhere",
    async (path) => {
      expect((await ask(path)).headers).toMatchObject({
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
        "content-security-policy": expect.stringMatching(/^default-src 'none';.*frame-ancestors 'none'/),
      });
    },
  );

  it("lets the browser run the page's own style and code and nothing else", async () => {
    const { headers, body } = await ask("/");
    expect(body).toBe(PAGE);
    const hash = (text: string) => createHash("sha256").update(text).digest("base64");
    expect(String(headers["content-security-policy"]).split("; ")).toEqual([
      "default-src 'none'",
      `script-src 'sha256-${hash("start()")}'`,
      `style-src 'sha256-${hash("p{}")}'`,
      "connect-src 'self'",
      "img-src data:",
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
      "trusted-types 'none'",
    ]);
    expect((await ask("/api/node")).headers["content-security-policy"]).not.toContain("sha256");
  });

  it.each(["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])("refuses %s", async (method) => {
    const { status: code, headers } = await ask("/api/node", {}, method);
    expect([code, headers.allow, read]).toEqual([405, "GET, HEAD", []]);
  });

  it("answers HEAD with the head alone", async () => {
    const { status: code, headers, body } = await ask("/", {}, "HEAD");
    expect([code, headers["content-length"], body]).toEqual([200, String(PAGE.length), ""]);
  });

  it.each([
    "localhost",
    "LOCALHOST:9418",
    "127.0.0.1",
    "127.0.0.1:8000",
    "127.1.2.3:1",
    "[::1]",
    "[::1]:9418",
  ])("knows itself as %s", async (host) => {
    expect((await ask("/api/node", { host })).status).toBe(200);
  });

  it.each([
    ...["evil.example", "evil.example:9418", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1"],
    ...["127.0.0.1@evil.example", "[::1].evil.example", "[::2]", "0.0.0.0", "localhost:x", "::1"],
  ])("refuses a name such as %j that was made to resolve to it", async (host) => {
    for (const path of ["/", "/api/node"]) expect((await ask(path, { host })).status).toBe(421);
    expect(read).toEqual([]);
  });

  it("answers the page itself, and no other site's", async () => {
    const from = (site: string, more = {}) => ({ "sec-fetch-site": site, ...more });
    const link = { "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };
    const framed = { "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe" };
    const code = async (path: string, headers: Record<string, string>) => (await ask(path, headers)).status;
    expect(await code("/api/node", from("same-origin"))).toBe(200);
    expect(await code("/", from("none", link))).toBe(200);
    expect(await code("/", from("cross-site", link))).toBe(200);
    expect(await code("/", from("cross-site", framed))).toBe(403);
    expect(await code("/api/node", from("cross-site", link))).toBe(403);
    expect(await code("/api/node", from("same-site", { "sec-fetch-mode": "no-cors" }))).toBe(403);
  });

  it("reads the node only on request, and at most once a second", async () => {
    await ask("/");
    expect(read).toEqual([]);
    await Promise.all(Array.from({ length: 20 }, node));
    now += 999;
    await node();
    expect(read).toHaveLength(1);
    now += 1;
    await node();
    expect(read).toHaveLength(2);
  });

  it("shows a pod's chain with the first broken link, its cause and its cure", async () => {
    const broken = (await node()).pods.find(({ health }) => health === "broken");
    const { interfaces, name } = await chain(broken?.id ?? "");
    expect(name).toBe("virt-launcher-probe-k3d9f");
    expect(interfaces[0]?.chain.at(-1)).toMatchObject({
      name: "port",
      verdict: "broken",
      what: "port vhu7c41e090004d belongs to another program",
      cause: expect.any(String),
      cure: expect.any(String),
    });
  });

  it("traces a pod at most once a second, and few pods", async () => {
    const all = manyExamples(40);
    status = exampleNode(all);
    const { pods } = await node();
    const codes = (ids: readonly string[]) =>
      Promise.all(ids.map(async (id) => (await ask(`/api/chain?pod=${id}`)).status));
    const [first = ""] = pods.map(({ id }) => id);
    await codes([first, first, first]);
    expect(read).toHaveLength(2);
    const many = await codes(pods.map(({ id }) => id).slice(0, 20));
    expect([many.filter((code) => code === 200).length, many.filter((code) => code === 503).length]).toEqual([
      16, 4,
    ]);
    now += 1_000;
    expect(await codes([pods.at(-1)?.id ?? ""])).toEqual([200]);
  });

  it.each(["", "0123456789abcdef", "../etc", "__proto__"])(
    "answers 404 for the unknown pod %j",
    async (id) => {
      expect((await ask(`/api/chain?pod=${id}`)).status).toBe(404);
    },
  );

  it("escapes hostile names for display, and traces the pod by its real name", async () => {
    const pod = { namespace: HOSTILE, name: HOSTILE, uid: "" };
    const { holder: _, deviceInfo: __, differences: ___, ...one } = tracedInterface({ pod, name: HOSTILE });
    status = nodeStatus({ interfaces: [one], node: HOSTILE });
    const { body, headers } = await ask("/api/node");
    expect(headers["content-type"]).toBe("application/json");
    expect(["\u202e", "\u0007"].filter((one) => body.includes(one))).toEqual([]);
    const view = JSON.parse(body) as PageNode;
    expect(view.node).toBe(`"><img src=x onerror=alert(1)><script>\\u202e\\u0007`);
    expect(view.pods[0]?.id).toBe(podId(pod));
    expect(view.pods[0]?.id).toMatch(/^[0-9a-f]{16}$/);
    await chain(podId(pod));
    expect(read.at(-1)).toMatchObject({ namespace: HOSTILE, name: HOSTILE });
  });

  it("says that the node could not be read, and tries again", async () => {
    readNode = () => Promise.reject(new Error("torn"));
    expect(await ask("/api/node")).toMatchObject({ status: 500, body: "torn\n" });
    readNode = async () => status;
    now += 1_000;
    expect((await ask("/api/node")).status).toBe(200);
  });
});

describe("a status page that cannot be served", () => {
  const options = { address: "127.0.0.1", port: 0, logger: silentLogger };
  const start = (more: { readonly file?: string; readonly port?: number }) =>
    serveStatusPage({
      ...options,
      ...more,
      readNode: async () => status,
      readTrace: async (pod) => exampleTrace(pod),
    });

  it("names the missing file when the page was not built", async () => {
    await expect(start({ file: join(directory, "none.html") })).rejects.toMatchObject({
      code: "part-missing",
      fix: expect.stringContaining("dist/status-page"),
    });
  });

  it("refuses a page with code outside of its one script", async () => {
    const file = join(directory, "two.html");
    await writeFile(file, `${PAGE}<script>more()</script>`);
    await expect(start({ file })).rejects.toMatchObject({ code: "part-missing" });
  });

  it("names its configuration key when the port is in use", async () => {
    const port = Number(new URL(server.url).port);
    const file = join(directory, "page.html");
    await expect(start({ file, port })).rejects.toMatchObject({
      code: "invalid-config",
      message: `invalid-config: the status page cannot be served: another program listens on the port (statusPage.address 127.0.0.1, statusPage.port ${port}); set statusPage.port to a free one, or stop the other program`,
    });
  });
});
