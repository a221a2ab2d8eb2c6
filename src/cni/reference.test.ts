import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { CNI_CODES } from "./error-answer.ts";
import { OTHERS_KEYS, parseNetworkConfig } from "./network-config.ts";
import { networkConfigSchema, portKeys } from "./network-keys.ts";
import { portSettingsOf } from "./port-settings-of.ts";

const text = readFileSync(resolve(import.meta.dirname, "../../docs/cni.md"), "utf8");
const section = (title: string) => text.split(/^## /m).find((part) => part.startsWith(`${title}\n`)) ?? "";
const named = [...section("Keys").matchAll(/^\| `([\w]+)` \|/gm)].map(([, key]) => key);
/** Keys that are the runtime's or other plugins' to write. */
const NOT_WRITTEN = [
  "type",
  "ipMasq",
  "pciBusID",
  "args",
  "runtimeConfig",
  "prevResult",
  "cni.dev/valid-attachments",
  "cni.dev/attachments",
];

describe("docs/cni.md", () => {
  it("explains every key, and no other", () => {
    const known = Object.keys(networkConfigSchema.shape).filter((key) => !NOT_WRITTEN.includes(key));
    expect([...named].sort()).toEqual(known.sort());
    expect(named).toEqual(expect.arrayContaining(Object.keys(portKeys)));
  });

  it("names every key of other plugins that is refused", () => {
    expect(OTHERS_KEYS.filter((key) => !section("Keys").includes(`\`${key}\``))).toEqual([]);
  });

  it("has examples that are accepted, and that ask for something", () => {
    const examples = [...text.matchAll(/^```json\n(.*?)^```/gms)].map(([, json = ""]) => json);
    expect(examples.length).toBeGreaterThanOrEqual(5);
    for (const example of examples) {
      const config = parseNetworkConfig(Buffer.from(example));
      const asked = Object.keys(portSettingsOf(config)).length;
      expect(asked > 0 || config.ipam?.type !== undefined, example).toBe(true);
    }
  });

  it("lists every error code with its name", () => {
    const listed = [...section("Errors").matchAll(/^\| (\d+) \| `([\w-]+)` \|/gm)].map(([, code, name]) => [
      name,
      Number(code),
    ]);
    expect(Object.fromEntries(listed)).toEqual(CNI_CODES);
  });
});
