import { describe, expect, it } from "vitest";
import { tracedInterface } from "../../../test/stand-in/records/traced-interface.ts";
import type { Place, TracedInterface } from "../shape.ts";
import { brokenLink, isBroken, traceChain } from "./chain.ts";
import { LINKS } from "./link.ts";

const places = (changes: Partial<Record<"allocation" | "directory" | "socket", Partial<Place>>>) => {
  const { places: whole } = tracedInterface();
  if (whole === undefined) throw new Error("the example has places");
  return {
    places: {
      allocation: { ...whole.allocation, ...changes.allocation },
      directory: { ...whole.directory, ...changes.directory },
      socket: { ...whole.socket, ...changes.socket },
    },
  };
};
const port = (changes: Partial<NonNullable<TracedInterface["port"]>>) => {
  const { port: whole } = tracedInterface();
  if (whole === undefined) throw new Error("the example has a port");
  return { port: { ...whole, ...changes } };
};
/** The same without some of its keys. */
function without(...keys: readonly (keyof TracedInterface)[]): TracedInterface {
  const entries = Object.entries(tracedInterface()).filter(([key]) => !keys.some((one) => one === key));
  return Object.fromEntries(entries) as TracedInterface;
}

describe("the chain of an interface", () => {
  it("has every link, in order, where all is well", () => {
    const chain = traceChain(tracedInterface());
    expect(chain.map(({ name }) => name)).toEqual(LINKS);
    expect(chain.filter(({ verdict }) => verdict !== "ok")).toEqual([]);
  });

  const CLAIM = { namespace: "shop", name: "c", uid: "u", request: "net" };
  const file = "/devinfo/x.json";
  const missing = { file, state: "missing" as const };
  const good = { file: "/devinfo/y.json", state: "good" as const };
  it.each<readonly [string, TracedInterface, "broken" | "waiting", RegExp]>([
    ["pod", tracedInterface({ holder: "not-held" }), "broken", /does not list sockets-00003/],
    [
      "pod",
      tracedInterface({ holder: "not-held", claim: CLAIM }),
      "broken",
      /does not list claim shop\/c for/,
    ],
    [
      "record",
      tracedInterface({ state: "allocated", claim: CLAIM }),
      "broken",
      /request net of claim shop\/c/,
    ],
    [
      "device-info",
      tracedInterface({ claim: CLAIM, deviceInfo: { device: good, attachment: missing } }),
      "broken",
      /^\/devinfo\/x.json is not there$/,
    ],
    ["allocation", without("allocation", "places", "ownership"), "broken", /no record of an allocation/],
    [
      "directory",
      tracedInterface(places({ allocation: { kind: "missing" } })),
      "broken",
      /cdef is not there/,
    ],
    ["directory", tracedInterface(places({ directory: { kind: "missing" } })), "broken", /ce1 is not there/],
    ["directory", tracedInterface(places({ directory: { kind: "other" } })), "broken", /is no directory/],
    [
      "directory",
      tracedInterface(places({ directory: { kind: "unknown", reason: "EIO" } })),
      "broken",
      /is no directory: EIO/,
    ],
    ["directory", tracedInterface(places({ allocation: { mode: 0o777 } })), "broken", /mode 0777.*mode 0755/],
    [
      "directory",
      tracedInterface(places({ directory: { owner: 1000 } })),
      "broken",
      /owner 1000:108.*107:108/,
    ],
    ["directory", tracedInterface(places({ directory: { mode: 0o700 } })), "broken", /mode 0700.*mode 2770/],
    ["directory", tracedInterface({ rootProblem: "it was unmounted" }), "broken", /it was unmounted/],
    [
      "directory",
      tracedInterface(places({ allocation: { madeAt: 1_001 }, socket: { kind: "missing" } })),
      "broken",
      /was made again after the pod was attached/,
    ],
    [
      "directory",
      tracedInterface({
        ...places({ allocation: { madeAt: 1_001 } }),
        ...port({ connected: false }),
        socketServer: "switch",
      }),
      "broken",
      /was made again/,
    ],
    ["device-info", tracedInterface({ deviceInfo: { device: missing } }), "broken", /x.json is not there/],
    [
      "device-info",
      tracedInterface({
        deviceInfo: { device: good, attachment: { ...missing, state: "wrong", reason: "no" } },
      }),
      "broken",
      /x.json is wrong: no/,
    ],
    ["record", tracedInterface({ state: "allocated" }), "broken", /no interface is attached/],
    ["record", tracedInterface({ state: "attaching" }), "waiting", /is being attached/],
    ["record", tracedInterface({ state: "detaching" }), "broken", /is being detached/],
    ["record", tracedInterface({ state: "releasing" }), "broken", /is being detached/],
    [
      "port",
      tracedInterface({ switch: { ready: false, reason: "ovs-vswitchd is not running" } }),
      "broken",
      /bridge br0: ovs-vswitchd is not running/,
    ],
    ["port", { ...without("port"), portUnknown: "no answer" }, "broken", /is not known.*no answer/],
    ["port", without("port"), "broken", /has no port vhu0123456789ab of this pod/],
    ["port", { ...without("port"), differences: ["it is another's"] }, "broken", /it is another's/],
    ["port", tracedInterface(port({ error: "no memory" })), "broken", /failed: no memory/],
    ["port", tracedInterface({ differences: ["tag is 7", "MTU is 9"] }), "broken", /tag is 7; MTU is 9/],
    [
      "socket",
      tracedInterface(places({ socket: { kind: "missing" } })),
      "waiting",
      /vhost.sock is not there/,
    ],
    [
      "socket",
      tracedInterface({ ...places({ socket: { kind: "missing" } }), socketServer: "switch" }),
      "broken",
      /vhost.sock is not there/,
    ],
    ["socket", tracedInterface(places({ socket: { kind: "other" } })), "broken", /is no socket/],
    ["socket", tracedInterface(places({ socket: { mode: 0o755 } })), "broken", /mode 0755.*may not connect/],
    ["connected", tracedInterface(port({ connected: false, link: "down" })), "waiting", /no peer/],
    [
      "connected",
      tracedInterface({ ...port({ connected: false, link: "down" }), socketServer: "switch" }),
      "waiting",
      /no peer/,
    ],
    ["link", tracedInterface(port({ link: "down" })), "waiting", /down/],
    ["queues", tracedInterface(port({ queuePairs: 0 })), "waiting", /none/],
  ])("breaks at %s", (name, one, verdict, what) => {
    const chain = traceChain(one);
    const last = chain.at(-1);
    expect(last).toMatchObject({ name, verdict, what: expect.stringMatching(what) });
    // A reader at night needs the reason and what to do.
    expect(last?.cause).toMatch(/\w{3}/);
    expect(last?.cure).toMatch(/\w{3}/);
    expect(chain.filter(isBroken)).toHaveLength(1);
  });

  it.each([
    ["has made its socket in it", tracedInterface(places({ allocation: { madeAt: 1_001 } }))],
    [
      "has connected to it",
      tracedInterface({ ...places({ allocation: { madeAt: 1_001 } }), socketServer: "switch" }),
    ],
  ])("does not break at a directory that is younger than the attachment where the pod %s", (_, one) => {
    expect(traceChain(one).filter(isBroken)).toEqual([]);
  });

  it("does not break where something cannot be read: kubelet is away, a switch has no value for queues", () => {
    const { port: whole } = tracedInterface();
    const { queuePairs: _, ...others } = whole ?? {};
    const one = tracedInterface({ holder: "unknown", holderUnknown: "kubelet is away" });
    const chain = traceChain({ ...one, port: others as NonNullable<TracedInterface["port"]> });
    expect(chain.map(({ verdict }) => verdict).filter((verdict) => verdict !== "ok")).toEqual([
      "unknown",
      "unknown",
    ]);
    expect(chain).toHaveLength(LINKS.length);
  });

  it("has among the causes of a switch without a peer a program that accepts and says nothing", () => {
    const last = traceChain(tracedInterface(port({ connected: false, link: "down" }))).at(-1);
    expect(last?.cause).toContain("does not speak vhost-user");
  });

  it("leaves out what only a trace checks, for the status of the node", () => {
    const one = without("holder", "deviceInfo", "switch", "differences");
    expect(brokenLink(one, 0)).toBeUndefined();
    expect(brokenLink({ ...one, ...places({ directory: { kind: "missing" } }) }, 0)).toMatchObject({
      name: "directory",
    });
  });
});
