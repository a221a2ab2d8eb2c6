import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Failure } from "../failure/failure.ts";
import { defineDomain } from "./define-domain.ts";
import { parseDomain } from "./domain-xml/document.ts";
import { parseClaimMetadata } from "./dra-metadata.ts";
import { parseNetworkInfo } from "./network-info.ts";
import { parseVmi } from "./vmi.ts";

// A failing run prints its seed and the smallest text that fails; fc.assert takes both to repeat it.

/** Runs a parser; anything that it throws must be an error of ours that says what to do. */
function survives(parse: () => unknown): void {
  try {
    parse();
  } catch (error) {
    if (!(error instanceof Failure) || error.code === "internal") throw error;
    expect(error.fix, error.message).toBeDefined();
    expect(error.message.length, "an event of Kubernetes is short").toBeLessThan(1_000);
  }
}

const VMI = {
  metadata: { name: "a", namespace: "b", annotations: { "vhostuser/interfaces": '{"n":{"queues":1}}' } },
  spec: {
    architecture: "amd64",
    domain: {
      machine: { type: "q35" },
      cpu: { cores: 2, sockets: 1, threads: 1 },
      resources: { requests: { cpu: "2" } },
      devices: {
        networkInterfaceMultiqueue: true,
        interfaces: [
          {
            name: "n",
            binding: { name: "vhostuser" },
            macAddress: "02:00:00:00:00:01",
            pciAddress: "0000:81:01.0",
            bootOrder: 1,
            model: "virtio",
          },
        ],
      },
    },
    networks: [{ name: "n", resourceClaim: { claimName: "c", requestName: "r" } }],
    resourceClaims: [{ name: "c", resourceClaimName: "d" }],
  },
  status: { interfaces: [{ name: "n", podInterfaceName: "net1" }], migrationState: { completed: true } },
};
const INFO = {
  interfaces: [
    {
      network: "n",
      deviceInfo: {
        type: "vhost-user",
        version: "1.1.0",
        "vhost-user": { mode: "server", path: "/var/run/x/vhost.sock" },
      },
      mac: "02:00:00:00:00:01",
      mtu: 9000,
    },
  ],
};
const METADATA = {
  apiVersion: "metadata.resource.k8s.io/v1alpha1",
  requests: [
    {
      name: "r",
      devices: [
        { driver: "d", name: "n", attributes: { "vhost-user-path": { string: "/x" }, mtu: { int: 1500 } } },
      ],
    },
  ],
};
const DOMAIN =
  '<domain type="kvm" xmlns:qemu="q"><memory unit="b">1</memory><memoryBacking><access mode="shared"/></memoryBacking>' +
  "<features><acpi/></features><cpu><numa><cell id='0' memAccess='shared'/></numa></cpu><devices><!-- x --><interface>" +
  "<source/><alias name='ua-n'/><address type='pci'/></interface><iommu model='intel'/></devices>" +
  "<qemu:override><qemu:device alias='ua-n'><qemu:frontend/></qemu:device></qemu:override></domain>";

/** A document with one of its values replaced by something of another shape. */
function withOneWrong(document: object): fc.Arbitrary<string> {
  const places: (string | number)[][] = [];
  const walk = (value: unknown, path: (string | number)[]): void => {
    places.push(path);
    if (typeof value !== "object" || value === null) return;
    for (const [key, inner] of Object.entries(value)) walk(inner, [...path, key]);
  };
  walk(document, []);
  const wrong = fc.oneof(
    fc.jsonValue({ maxDepth: 2 }),
    fc.constantFrom("../x", "a\u0000b", -1, 1e308, "\ud800", [], {}),
  );
  return fc.tuple(fc.constantFrom(...places), wrong).map(([path, value]) => {
    const copy = structuredClone({ root: document }) as Record<string, unknown>;
    let at: Record<string | number, unknown> = copy;
    let key: string | number = "root";
    for (const next of path) {
      at = at[key] as Record<string | number, unknown>;
      key = next;
    }
    at[key] = value;
    return JSON.stringify(copy["root"]);
  });
}

/** A text with pieces cut out, doubled and strewn in. */
function mangled(text: string, pieces: readonly string[]): fc.Arbitrary<string> {
  const edit = fc.record({
    at: fc.nat({ max: text.length }),
    length: fc.nat({ max: 20 }),
    piece: fc.oneof(fc.constantFrom(...pieces), fc.string({ maxLength: 6 }), fc.constant(text)),
  });
  return fc.array(edit, { maxLength: 4 }).map((edits) => {
    let result = text;
    for (const { at, length, piece } of edits)
      result = result.slice(0, at) + piece + result.slice(at + length);
    return result;
  });
}

const JSON_PIECES = [
  "{",
  "}",
  "[",
  "]",
  '"',
  "\\",
  ",",
  ":",
  "null",
  "1e999",
  "\u0000",
  '"\\u0000"',
  "//",
  "__proto__",
];
const XML_PIECES = [
  "<",
  ">",
  "</",
  "/>",
  "<!--",
  "-->",
  "<![CDATA[",
  "]]>",
  "<?",
  "?>",
  "<!DOCTYPE a>",
  "&a;",
  "&#0;",
].concat([
  "'",
  '"',
  "=",
  "<domain>",
  "</devices>",
  "<devices>",
  "<interface>",
  "xmlns",
  "\u0000",
  " ",
  "\ufeff",
  "<a:b/>",
]);
const many = { numRuns: 2_000 };

describe("whatever is sent, the sidecar answers with an error of its own or with a domain", () => {
  it("for a VMI", () => {
    fc.assert(
      fc.property(fc.oneof(withOneWrong(VMI), mangled(JSON.stringify(VMI), JSON_PIECES)), (text) =>
        survives(() => parseVmi(text, "vhostuser")),
      ),
      many,
    );
  });

  it("for network-info", () => {
    fc.assert(
      fc.property(fc.oneof(withOneWrong(INFO), mangled(JSON.stringify(INFO), JSON_PIECES)), (text) =>
        survives(() => parseNetworkInfo(text, "a test", ["n"])),
      ),
      many,
    );
  });

  it("for a DRA driver's metadata", () => {
    const request = { kind: "claim", claim: "c", request: "r" } as const;
    fc.assert(
      fc.property(fc.oneof(withOneWrong(METADATA), mangled(JSON.stringify(METADATA), JSON_PIECES)), (text) =>
        survives(() => parseClaimMetadata(text, request, "a test")),
      ),
      many,
    );
  });

  it("for a domain, which stays a domain", () => {
    const vmi = parseVmi(JSON.stringify({ ...VMI, status: {} }), "vhostuser");
    const socket = { path: "/var/run/x/vhost.sock", mac: undefined, mtu: 9000 };
    fc.assert(
      fc.property(mangled(DOMAIN, XML_PIECES), (text) =>
        survives(() => {
          const answer = defineDomain(text, vmi, new Map([["n", socket]]));
          expect(parseDomain(answer).root.name).toBe("domain");
          expect(answer.match(/path="\/var\/run\/x\/vhost.sock"/g)).toHaveLength(1);
        }),
      ),
      many,
    );
  });
});
