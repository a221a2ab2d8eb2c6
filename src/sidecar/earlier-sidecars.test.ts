import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { defineDomain, type NicSocket } from "./define-domain.ts";
import { parseVmi } from "./vmi.ts";

/** Domains of a VM with two NICs of ours as the first sidecar wrote them, with the addresses that libvirt gave. */
const FIXTURES = resolve(import.meta.dirname, "../../test/fixtures/domains");
const domain = (name: string) => readFileSync(join(FIXTURES, `${name}.xml`), "utf8");

const PATHS = {
  constant: (name: string) => `/var/run/vhostuser/sockets/pod${name}/vhost.sock`,
  link: (name: string) => `/var/run/kubevirt-hooks/hook-sidecar-0/vhostuser/pod${name}/vhost.sock`,
};

const ours = (name: string, macAddress?: string) => ({ name, binding: { name: "vhostuser" }, macAddress });
const VMI = parseVmi(
  JSON.stringify({
    metadata: { name: "router", namespace: "tests" },
    spec: {
      architecture: "amd64",
      domain: {
        cpu: { cores: 2 },
        devices: {
          networkInterfaceMultiqueue: true,
          interfaces: [{ name: "default", masquerade: {} }, ours("blue", "02:00:00:00:00:01"), ours("red")],
        },
      },
      networks: ["default", "blue", "red"].map((name) => ({ name, multus: { networkName: name } })),
    },
    status: { interfaces: ["blue", "red"].map((name) => ({ name, podInterfaceName: `pod${name}` })) },
  }),
  "vhostuser",
);

/** What this release makes of a domain, once and again. */
function define(xml: string, path: keyof typeof PATHS): string {
  const socket = (name: string): NicSocket => ({
    path: PATHS[path](name),
    mac: "02:00:00:00:00:09",
    mtu: undefined,
  });
  const sockets = new Map(["blue", "red"].map((name) => [name, socket(name)]));
  const answer = defineDomain(xml, VMI, sockets);
  expect(defineDomain(answer, VMI, sockets)).toBe(answer);
  return answer;
}

describe("a domain that an earlier sidecar wrote", () => {
  it.each(["constant", "link"] as const)(
    "is left byte for byte where its path is still right (%s)",
    (path) => {
      expect(define(domain(path), path)).toBe(domain(path));
    },
  );

  it.each([
    ["link", "constant"],
    ["constant", "link"],
  ] as const)("through a %s gets the path that is right now (%s), and nothing else", (before, now) => {
    expect(define(domain(before), now)).toBe(domain(now));
  });

  it("of a downgrade, or of a later one: what it did not know goes, address and place stay", () => {
    const later = domain("constant").replaceAll(
      '<driver name="vhost"',
      '<backend type="passt"></backend><driver name="vhost" unheard="of"',
    );
    expect(define(later, "constant")).toBe(domain("constant"));
  });
});
