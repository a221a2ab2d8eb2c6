import { Agent, get } from "node:http";
import { connect } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../logging/logger.ts";
import { type HttpServer, type Page, serveHttp, text } from "./http-server.ts";

let server: HttpServer;
let page: () => Promise<Page>;

beforeEach(async () => {
  page = async () => text(200, "here\n");
  server = await serveHttp({
    address: "127.0.0.1",
    port: 0,
    pages: new Map([["/page", () => page()]]),
    logger: silentLogger,
  });
});
afterEach(() => server.close());

/** Sends bytes as they are, which fetch would clean up, and reads to the end of the connection. */
function raw(request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
    let answer = "";
    socket.on("data", (chunk) => {
      answer += chunk.toString();
    });
    socket.on("close", () => resolve(answer));
    socket.on("error", reject);
    socket.write(request);
  });
}

describe("the server of metrics and probes", () => {
  it("answers GET, with a query too", async () => {
    for (const path of ["/page", "/page?x=/../etc"]) {
      const response = await fetch(server.url + path);
      expect([response.status, await response.text()]).toEqual([200, "here\n"]);
    }
  });

  it("answers HEAD without a body", async () => {
    const answer = await raw("HEAD /page HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    expect(answer).toMatch(/^HTTP\/1.1 200 /);
    expect(answer).toContain("content-length: 5\r\n");
    expect(answer).not.toContain("here");
  });

  it.each(["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])("refuses %s", async (method) => {
    const response = await fetch(`${server.url}/page`, { method });
    expect([response.status, response.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  });

  it("does not parse a body as the next request", async () => {
    const inner = "GET /page HTTP/1.1\r\nhost: x\r\n\r\n";
    const answer = await raw(
      `POST /page HTTP/1.1\r\nhost: x\r\ncontent-length: ${inner.length}\r\n\r\n${inner}`,
    );
    expect(answer.match(/HTTP\/1.1/g)).toHaveLength(1);
  });

  it("answers one request at a time on a connection, and drops a caller that pipelines", async () => {
    const go = Promise.withResolvers<Page>();
    let asked = 0;
    page = () => {
      asked += 1;
      return go.promise;
    };
    const request = "GET /page HTTP/1.1\r\nhost: x\r\n\r\n";
    expect(await raw(request.repeat(100))).toBe("");
    expect(asked).toBe(1);
    go.resolve(text(200, "late\n"));
  });

  it("answers one request after the other on a connection", async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const sockets = new Set<unknown>();
    for (let i = 0; i < 3; i += 1) {
      await new Promise<void>((resolve, reject) => {
        get(`${server.url}/page`, { agent }, (response) => {
          sockets.add(response.socket);
          response.resume().on("end", resolve);
        }).on("error", reject);
      });
    }
    agent.destroy();
    expect(sockets.size).toBe(1);
  });

  it("cuts a connection whose answer is not read", async () => {
    const cut = Promise.withResolvers<void>();
    await using stack = new AsyncDisposableStack();
    const impatient = await serveHttp({
      ...{ address: "127.0.0.1", port: 0, idleMs: 50, logger: silentLogger },
      pages: new Map([["/page", async () => text(200, "x".repeat(64 * 1024 * 1024))]]),
      refuse: ({ socket }) => {
        socket.once("close", () => cut.resolve());
        return undefined;
      },
    });
    stack.defer(() => impatient.close());
    const socket = connect(Number(new URL(impatient.url).port), "127.0.0.1").pause();
    stack.defer(() => void socket.destroy());
    socket.on("error", () => undefined);
    socket.write("GET /page HTTP/1.1\r\nhost: x\r\n\r\n");
    await cut.promise;
  });

  it("accepts a caller, however many connections another one opens", async () => {
    const port = Number(new URL(server.url).port);
    const hog = { port, host: "127.0.0.1", localAddress: "127.0.0.2" };
    const sockets = Array.from({ length: 200 }, () => connect(hog).resume());
    let cut = 0;
    const gone = Promise.withResolvers<void>();
    for (const socket of sockets) {
      socket.on("error", () => undefined);
      socket.on("close", () => {
        cut += 1;
        if (cut === 200 - 32) gone.resolve();
      });
    }
    await gone.promise;
    expect(await (await fetch(`${server.url}/page`)).text()).toBe("here\n");
    for (const socket of sockets) socket.destroy();
  });

  it.each(["/", "/page/", "//page", "/../page", "/page/../../etc/passwd", "/%70age", "/etc/passwd", "*"])(
    "has nothing at %s",
    async (path) => {
      const answer = await raw(`GET ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`);
      expect(answer).toMatch(/^HTTP\/1.1 404 /);
      expect(answer).toContain("there is: /page");
    },
  );

  it("refuses a head that is too long or malformed", async () => {
    expect(await raw(`GET /page HTTP/1.1\r\nx: ${"x".repeat(10_000)}\r\n\r\n`)).toMatch(/^HTTP\/1.1 431 /);
    expect(await raw("hello\r\n\r\n")).toMatch(/^HTTP\/1.1 400 /);
  });

  it("answers 500 for a page that fails, and goes on", async () => {
    page = () => Promise.reject(new Error("torn"));
    const response = await fetch(`${server.url}/page`);
    expect([response.status, await response.text()]).toEqual([500, "torn\n"]);
    page = async () => text(200, "again\n");
    expect(await (await fetch(`${server.url}/page`)).text()).toBe("again\n");
  });

  it("says what to do when another program has the port", async () => {
    const port = Number(new URL(server.url).port);
    const second = serveHttp({ address: "127.0.0.1", port, pages: new Map(), logger: silentLogger });
    await expect(second).rejects.toMatchObject({
      code: "invalid-config",
      message: `invalid-config: metrics and probes cannot be served: another program listens on the port (observe.address 127.0.0.1, observe.port ${port}); set observe.port to a free one, or stop the other program`,
    });
  });

  it("says what to do when the address is another machine's", async () => {
    const second = serveHttp({ address: "192.0.2.1", port: 0, pages: new Map(), logger: silentLogger });
    await expect(second).rejects.toMatchObject({ code: "invalid-config", fix: /observe.address/ });
  });

  it("listens on IPv6 with a URL that works", async () => {
    const options = { address: "::1", port: 0, pages: new Map([["/page", page]]), logger: silentLogger };
    await using stack = new AsyncDisposableStack();
    const six = await serveHttp(options);
    stack.defer(() => six.close());
    expect(await (await fetch(`${six.url}/page`)).text()).toBe("here\n");
  });

  it("lets running requests end when it closes, and frees the port", async () => {
    const asked = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    page = async () => {
      asked.resolve();
      await go.promise;
      return text(200, "late\n");
    };
    const response = fetch(`${server.url}/page`);
    await asked.promise;
    const closed = server.close();
    go.resolve();
    expect(await (await response).text()).toBe("late\n");
    await closed;
    const port = Number(new URL(server.url).port);
    server = await serveHttp({ address: "127.0.0.1", port, pages: new Map(), logger: silentLogger });
  });

  it("closes although a caller never ends its request", async () => {
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
    const gone = new Promise<void>((resolve) => socket.on("close", () => resolve()));
    socket.on("error", () => undefined);
    await new Promise<void>((resolve) => socket.write("GET /page HTTP/1.1\r\nx: ", () => resolve()));
    await server.close();
    await gone;
    server = await serveHttp({ address: "127.0.0.1", port: 0, pages: new Map(), logger: silentLogger });
  });
});
