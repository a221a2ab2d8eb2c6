import { describe, expect, it } from "vitest";
import { answerFrame, parseRequestFrame } from "./frame.ts";

const WHOLE = Buffer.from('kube-vhostuser-cni 2 4711 20 4\nCNI_COMMAND=ADD\0A=b\0{""}');

describe("frames between shim and daemon", () => {
  it("parses a request, whatever the pieces it comes in", () => {
    for (let end = 0; end < WHOLE.length; end++)
      expect(parseRequestFrame(WHOLE.subarray(0, end))).toBeUndefined();
    const request = parseRequestFrame(WHOLE);
    expect({ ...request?.env }).toEqual({ CNI_COMMAND: "ADD", A: "b" });
    expect(request?.stdin.toString()).toBe('{""}');
    expect(request?.startedAtMs).toBe(4711);
  });

  it.each([
    ["a foreign protocol", "GET / HTTP/1.1\r\n"],
    ["an endless first line", "k".repeat(100)],
    ["a size over the bound", "kube-vhostuser-cni 2 1 0 9999999\n"],
    ["a newer protocol", "kube-vhostuser-cni 3 0 0 0\n"],
    ["a request without a start", "kube-vhostuser-cni 2 0 0\n"],
    ["more than announced", "kube-vhostuser-cni 2 1 0 0\nx"],
  ])("refuses %s", (_name, text) => {
    expect(() => parseRequestFrame(Buffer.from(text))).toThrow(/malformed/);
  });

  it("counts the answer in bytes", () => {
    expect(answerFrame({ exitCode: 0, stdout: "é\n" }).toString()).toBe("0 3\né\n");
  });
});
