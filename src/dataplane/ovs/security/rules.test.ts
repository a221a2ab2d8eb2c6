import { describe, expect, it } from "vitest";
import { type Flow, flowKey } from "../../../protocols/openflow/flow.ts";
import { exactValue } from "../../../protocols/openflow/match.ts";
import { planFlows } from "./bridge-flows.ts";
import { closedFlow, OURS_FILTER, portCookie, type RestrictedPort, securityFlows } from "./rules.ts";

const guest: RestrictedPort = {
  name: "vhu0123456789ab",
  mac: "02:00:00:00:00:01",
  addresses: ["10.0.0.5", "2001:db8::5"],
};
const addressesIn = (flows: readonly Flow[]) =>
  new Set(flows.flatMap(({ match }) => exactValue(match, "ipv4Src")?.toString("hex") ?? []));

// What the flows do to frames is seen with the real switch: test/integration/ovs-port-security.test.ts.
describe("the flows of port security", () => {
  it("are the port's own in cookie and number, and are different from each other", () => {
    const flows = securityFlows(7, guest);
    expect(new Set(flows.map(({ match }) => exactValue(match, "inPort")?.readUInt32BE()))).toEqual(
      new Set([7]),
    );
    expect(new Set(flows.map(({ cookie }) => cookie))).toEqual(new Set([portCookie(guest.name)]));
    expect(new Set(flows.map(flowKey)).size).toBe(flows.length);
  });

  it("include the one that closes a port, so that opening it only adds flows", () => {
    const closed = planFlows([closedFlow(7, guest.name)], securityFlows(7, guest));
    expect([closed.remove, closed.add.length]).toEqual([[], securityFlows(7, guest).length - 1]);
  });

  it("grow with the number of addresses, not with its square", () => {
    const count = (size: number) =>
      securityFlows(7, {
        ...guest,
        addresses: Array.from({ length: size }, (_, index) => `2001:db8::${index + 1}`),
      }).length;
    expect(count(20) - count(10)).toBe(count(30) - count(20));
  });

  it("end in dropping everything, at a lower priority than all others of their stage", () => {
    for (const addresses of [[], guest.addresses]) {
      const flows = securityFlows(7, { ...guest, addresses });
      const catchAlls = flows.filter(({ match }) => match.length === 2);
      expect(catchAlls).toHaveLength(addresses.length === 0 ? 1 : 3);
      expect(catchAlls.every(({ instructions }) => instructions.length === 0)).toBe(true);
      expect(Math.max(...catchAlls.map(({ priority }) => priority))).toBe(
        Math.min(...flows.map(({ priority }) => priority)),
      );
    }
  });

  it("name the addresses that they allow", () => {
    expect(addressesIn(securityFlows(7, guest))).toEqual(new Set(["0a000005", "00000000"]));
    expect(addressesIn(securityFlows(7, { ...guest, addresses: [] }))).toEqual(new Set());
  });

  it("carry a cookie with our mark, then the port's", () => {
    expect(portCookie("vhu1") & OURS_FILTER.cookieMask).toBe(OURS_FILTER.cookie);
    expect(portCookie("vhu1")).not.toBe(portCookie("vhu2"));
    expect(portCookie("vhu1").toString(16)).toMatch(/^766875[0-9a-f]{10}$/);
  });
});

describe("a plan of flows", () => {
  const [first, second, third] = securityFlows(7, guest) as [Flow, Flow, Flow];

  it("adds what is missing or differs, removes what is not wanted, and is empty when all is right", () => {
    const reordered = { ...first, match: [...first.match].reverse() };
    expect(planFlows([reordered, second, second], [first, second])).toEqual({ add: [], remove: [] });
    expect(planFlows([first, third, third], [first, second])).toEqual({ add: [second], remove: [third] });
    const altered = { ...first, instructions: Buffer.alloc(8) };
    expect(planFlows([altered], [first])).toEqual({ add: [first], remove: [] });
    const stolen = { ...first, cookie: 1n };
    expect(planFlows([stolen], [first])).toEqual({ add: [first], remove: [] });
  });
});
