import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { readDriverConfig } from "./driver-config.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-"));
});
afterEach(() => rm(directory, { recursive: true }));

async function read(text: string) {
  await writeFile(join(directory, "c.yaml"), text);
  return readDriverConfig(join(directory, "c.yaml"));
}

it("lets claims use no plugin by default", async () => {
  expect(await read("")).toEqual({ allowedPlugins: {} });
  expect(
    await read("allowedPlugins: { macvlan: [mode] }\ninterfaces: [{ name: eth1, maxVirtualDevices: 8 }]"),
  ).toEqual({
    allowedPlugins: { macvlan: ["mode"] },
    interfaces: [{ name: "eth1", maxVirtualDevices: 8 }],
  });
});

it.each([
  ["allowedPlugin: {}", "unknown key allowedPlugin, perhaps allowedPlugins is meant"],
  ["allowedPlugins: { ../sh: [] }", "Invalid key in record"],
  ["interfaces: [{ name: a-name-with-16-bytes }]", "must be the name of a network interface"],
  [
    "interfaces: [{ name: eth1, maxVirtualDevice: 8 }]",
    "unknown key interfaces.0.maxVirtualDevice, perhaps maxVirtualDevices is meant",
  ],
  ["{", "the configuration cannot be read"],
])("refuses %j", async (text, message) => {
  await expect(read(text)).rejects.toThrow(message);
});
