import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Ajv } from "ajv";
import { describe, expect, it } from "vitest";
import { portParametersSchema } from "../../scripts/build/claim-parameters-schema.ts";
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

  it("docs/vhost-user-port.schema.json is what a claim's parameters are checked with (else: npm run docs)", () => {
    expect(read("docs/vhost-user-port.schema.json")).toBe(portParametersSchema());
  });

  it("docs/dependencies.md names every dependency", () => {
    const manifest = JSON.parse(read("package.json")) as Record<string, Record<string, string> | undefined>;
    const names = ["dependencies", "devDependencies", "optionalDependencies"].flatMap((kind) =>
      Object.keys(manifest[kind] ?? {}),
    );
    const text = read("docs/dependencies.md");
    expect(names.filter((name) => !text.includes(`\`${name}\``))).toEqual([]);
  });

  it("docs/errors.md has meaning, cause and cure of every failure code and of no other", () => {
    const rows = [
      ...read("docs/errors.md").matchAll(/^\| `([\w-]+)` \| ([^|]+) \| [^|]{5,} \| [^|]{10,} \|$/gm),
    ];
    expect(Object.fromEntries(rows.map(([, code, meaning]) => [code, meaning]))).toEqual(FAILURE_CODES);
    expect(rows).toHaveLength(Object.keys(FAILURE_CODES).length);
  });
});

it("the chart's schema refuses a network's wrong value and unknown key, and lets other programs' keys pass", () => {
  const schema = JSON.parse(read("deploy/chart/kube-vhostuser/values.schema.json"));
  const isValid = new Ajv({ strict: false, validateFormats: false }).compile(schema);
  const valuesOf = (config: object) => ({ networks: [{ name: "blue", pool: "sockets", config }] });
  expect(isValid(valuesOf({ vlan: 300, trunk: [{ id: 5 }], "example.org/x": 1 }))).toBe(true);
  for (const config of [
    { vlan: 30_000 },
    { portSecurty: true },
    { mtu: "9000" },
    { trunk: [{ minID: 5 }] },
    { bandwidth: { ingressRate: "1M" } },
  ])
    expect(isValid(valuesOf(config)), JSON.stringify(config)).toBe(false);
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
