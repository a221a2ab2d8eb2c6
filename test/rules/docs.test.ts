import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { configurationReference } from "../../scripts/build/configuration-reference.ts";
import { parseNetworkConfig } from "../../src/cni/network-config.ts";
import { FAILURE_CODES } from "../../src/failure/catalogue.ts";
import { exampleVmi } from "../cluster/example-vm.ts";
import { exampleNetwork } from "../cluster/network.ts";

const TOP = resolve(import.meta.dirname, "../..");
const read = (file: string) => readFileSync(join(TOP, file), "utf8");

describe("the references", () => {
  it("docs/configuration.md is what the schema says (else: npm run docs)", () => {
    expect(read("docs/configuration.md")).toBe(configurationReference());
  });

  it("docs/dependencies.md names every dependency", () => {
    const manifest = JSON.parse(read("package.json")) as Record<string, Record<string, string> | undefined>;
    const names = ["dependencies", "devDependencies", "optionalDependencies"].flatMap((kind) =>
      Object.keys(manifest[kind] ?? {}),
    );
    const text = read("docs/dependencies.md");
    expect(names.filter((name) => !text.includes(`\`${name}\``))).toEqual([]);
  });

  it("docs/errors.md explains every failure code and no other", () => {
    const explained = [...read("docs/errors.md").matchAll(/^\| `([\w-]+)` \|/gm)].map(([, code]) => code);
    expect(explained.sort()).toEqual(Object.keys(FAILURE_CODES).sort());
  });
});

describe("deploy/examples", () => {
  it("the example network is one that the CNI plugin accepts, and not a list", async () => {
    const { config, resourceName } = await exampleNetwork();
    expect(parseNetworkConfig(Buffer.from(config as string)).capabilities).toMatchObject({ deviceID: true });
    expect(config).not.toContain('"plugins"');
    expect(resourceName).toBe("vhostuser/sockets");
  });

  it("the example VM asks for our binding on the example network", async () => {
    const { spec } = await exampleVmi();
    expect(spec.domain.devices.interfaces?.[1]?.binding).toEqual({ name: "vhostuser" });
    expect(spec.networks?.[1]?.multus?.networkName).toBe((await exampleNetwork()).name);
  });
});
