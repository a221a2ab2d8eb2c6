import { describe, expect, it } from "vitest";
import { leakedAddresses, nodeAddresses } from "../../test/stand-in/records/node-addresses.ts";
import { nodeStatus, tracedInterface } from "../../test/stand-in/records/traced-interface.ts";
import { printable, printableText } from "../names/printable.ts";
import { traceChain } from "../status/diagnosis/chain.ts";
import { findProblems } from "../status/diagnosis/problems.ts";
import { renderExamined } from "./doctor/doctor.ts";
import { renderLeaks, renderOf, renderPools, renderWho } from "./ip.ts";
import { renderStatus } from "./status.ts";
import { renderTrace } from "./trace.ts";

const EVIL = "a\u001b]0;title\u0007\u009b2Jb\u202ec\u007f";
const screen = { columns: 80, colour: false, write: () => undefined };

describe("texts from outside", () => {
  it("are printed by number where a terminal would obey them, and as they are elsewhere", () => {
    expect(printableText(EVIL)).toBe("a\\u001b]0;title\\u0007\\u009b2Jb\\u202ec\\u007f");
    expect(printableText("zero\u200bwidth \ufeff\u{e0001}")).toBe("zero\\u200bwidth \\ufeff\\ue0001");
    expect(printableText("one\r\n\ttwo")).toBe("one two");
    expect(printableText("Straße, 網路, 🦀 ~")).toBe("Straße, 網路, 🦀 ~");
    const value = { list: [EVIL, 7, null, true], [EVIL]: undefined };
    expect(JSON.stringify(printable(value))).not.toContain("\u009b");
    expect(printable({ list: ["x", 7, null, true] })).toEqual({ list: ["x", 7, null, true] });
  });

  it("reach a terminal by no command", () => {
    const pod = { namespace: "shop", name: EVIL, uid: EVIL };
    const one = { ...tracedInterface(), pod, name: EVIL, device: EVIL };
    const broken = { ...one, differences: [EVIL], places: undefined };
    const pool = { ...nodeStatus().pools[0], name: EVIL, switch: { kind: EVIL, ready: false, reason: EVIL } };
    const leftovers = {
      ports: [{ name: EVIL, bridge: EVIL, pod: EVIL }],
      directories: [EVIL],
      records: [{ file: EVIL, reason: EVIL }],
    };
    const counts = { ...nodeStatus().counts, repairs: { [EVIL]: 1 } };
    const changes = { node: EVIL, interfaces: [one], pools: [pool as never], leftovers, counts };
    const status = nodeStatus(changes);
    const found = { verdict: "problem", what: EVIL, cure: EVIL } as const;
    const leak = leakedAddresses({ pod, interface: EVIL, network: EVIL, container: EVIL, reason: EVIL });
    const holder = { state: "held", space: EVIL, block: EVIL, interface: leak, isLost: false } as const;
    const unknown = { state: "unknown", space: EVIL, reason: EVIL } as const;
    const head = { node: EVIL, at: 0 };
    const texts = [
      renderStatus(screen, status, findProblems(status)),
      renderExamined(screen, [{ name: "records", findings: [found] }]),
      renderTrace(screen, [{ interface: one, chain: traceChain(broken as never) }]),
      renderWho(screen, { ...head, address: EVIL, holders: [holder], leftOut: 0 }),
      renderWho(screen, { ...head, address: EVIL, holders: [unknown], leftOut: 0 }),
      renderOf(screen, { ...head, interfaces: [leak], leftOut: 0 }, true),
      renderPools(screen, nodeAddresses({ node: EVIL }), [found]),
      renderLeaks(screen, nodeAddresses({ leaks: [leak] })),
    ];
    for (const text of texts) {
      expect(text).toContain("\\u001b");
      // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
      expect(text.replaceAll("\n", "")).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
    }
  });
});
