import { expect } from "vitest";
import { SUPPORTED_CNI_VERSIONS } from "../../src/names/cni-version.ts";
import { portOfSandbox } from "../../src/records/port-record.ts";
import type { CniRig, RigAnswer, RigCall } from "../stand-in/cni/cni-rig.ts";
import type { IpamPlugin } from "../stand-in/cni/ipam-plugin.ts";
import { checkResult } from "../stand-in/multus/check-result.ts";

/** Verbs of CNI 1.1.0. */
export const VERBS = ["ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"] as const;
/** What has happened before, or happens at the same time. */
export const SITUATIONS = ["fresh", "repeated", "after a crash", "concurrent", "garbage input"] as const;

export type Verb = (typeof VERBS)[number];
export type Situation = (typeof SITUATIONS)[number];
export type Version = (typeof SUPPORTED_CNI_VERSIONS)[number];

/** One cell of the table. */
export interface ConformanceCase {
  readonly verb: Verb;
  readonly version: Version;
  readonly situation: Situation;
}

/** What a case is tried on: a node with three devices allocated, and an IPAM plugin that the network names. */
export interface ConformanceNode {
  readonly rig: CniRig;
  readonly ipam: IpamPlugin;
}

/** What was seen: an outcome in words, for the table, after all else was checked. */
type Outcome = string;

/** Every verb in every situation with each of these versions. */
export function conformanceCases(versions: readonly Version[] = SUPPORTED_CNI_VERSIONS): ConformanceCase[] {
  return VERBS.flatMap((verb) =>
    SITUATIONS.flatMap((situation) => versions.map((version) => ({ verb, version, situation }))),
  );
}

/** Name of a case, for tests and as the key of its outcome. */
export function caseName({ verb, version, situation }: ConformanceCase): string {
  return `${verb} ${version}, ${situation}`;
}

/**
 * Tries one case and checks codes, results, and that records, switch and IPAM plugin hold the same afterwards.
 * @returns the outcome in a few words
 */
export function tryCase(
  { verb, version, situation }: ConformanceCase,
  node: ConformanceNode,
): Promise<Outcome> {
  const attempt = new Attempt(verb, version, node);
  switch (situation) {
    case "fresh":
      return attempt.fresh();
    case "repeated":
      return attempt.repeated();
    case "after a crash":
      return attempt.afterCrash();
    case "concurrent":
      return attempt.concurrent();
    case "garbage input":
      return attempt.garbage();
  }
}

/** First version that has the verb. */
const SINCE: Readonly<Record<Verb, Version>> = {
  ADD: "0.3.0",
  DEL: "0.3.0",
  VERSION: "0.3.0",
  CHECK: "0.4.0",
  GC: "1.1.0",
  STATUS: "1.1.0",
};

const ATTACHED = "c1 net1 attached";
const DROPPED = { ifname: "net2", deviceID: "sockets-00002" };

class Attempt {
  readonly #verb: Verb;
  readonly #version: Version;
  readonly #node: ConformanceNode;
  /** What the ADD that came before has answered. */
  #added: RigAnswer["json"];

  constructor(verb: Verb, version: Version, node: ConformanceNode) {
    this.#verb = verb;
    this.#version = version;
    this.#node = node;
  }

  async fresh(): Promise<Outcome> {
    await this.#prepare();
    const answer = await this.#once();
    await this.#expectLeft(this.#statesAfter());
    return this.#checkAnswer(answer);
  }

  async repeated(): Promise<Outcome> {
    await this.#prepare();
    const first = await this.#once();
    expect(await this.#once()).toEqual(first);
    expect(await this.#once()).toEqual(first);
    await this.#expectLeft(this.#statesAfter());
    return this.#checkAnswer(first);
  }

  /** Killed in the middle of the verb where it changes something, else just killed; nothing is repaired yet. */
  async afterCrash(): Promise<Outcome> {
    await this.#prepare();
    if (this.#verb === "ADD") {
      await this.#add({});
      await this.#mark("net1", "attaching");
    }
    if (this.#verb === "DEL") await this.#mark("net1", "detaching");
    if (this.#verb === "GC") await this.#mark(DROPPED.ifname, "detaching");
    await this.#node.rig.start();
    const answer = await this.#once();
    await this.#expectLeft(
      this.#verb === "GC" && !this.#isKnown ? [ATTACHED, "c1 net2 detaching"] : this.#statesAfter(),
    );
    return this.#checkAnswer(answer);
  }

  async concurrent(): Promise<Outcome> {
    await this.#prepare();
    const bystander = { container: "c2", ifname: "net9", deviceID: "sockets-00003" };
    const [added, first, ...others] = await Promise.all([
      this.#add(bystander),
      this.#once(),
      ...[1, 2, 3].map(() => this.#once()),
    ]);
    expect(added.exitCode).toBe(0);
    for (const other of others) expect(other).toEqual(first);
    await this.#expectLeft([...this.#statesAfter(), "c2 net9 attached"]);
    return this.#checkAnswer(first);
  }

  async garbage(): Promise<Outcome> {
    const codes = new Set<number>();
    await this.#prepare();
    for (const { what, call, code } of this.#garbage()) {
      if (this.#verb === "DEL") await this.#prepare(); // the one before may have removed it
      const answer = await this.#node.rig.call(this.#verb, call);
      const got = answer.exitCode === 0 ? 0 : answer.json?.["code"];
      expect(got, `${what}: ${JSON.stringify(answer.json)}`).toBe(code);
      if (code !== 0) this.#checkError(answer, code);
      const isGone = this.#verb === "ADD" || (this.#verb === "DEL" && code === 0);
      const left = this.#verb === "GC" ? [ATTACHED, "c1 net2 attached"] : [ATTACHED];
      await this.#expectLeft(isGone ? [] : left);
      if (code !== 0) codes.add(code);
    }
    const errors = [...codes].sort().join(", ");
    const outcomes = [
      ...(readsStdin(this.#verb) ? [] : ["success"]),
      ...(errors === "" ? [] : [`error ${errors}`]),
    ];
    return outcomes.join(", ");
  }

  /** What the verb is about: nothing for ADD, two attachments of which one is to go for GC, else one. */
  async #prepare(): Promise<void> {
    if (this.#verb === "ADD") return;
    this.#added = (await this.#add({})).json;
    if (this.#verb === "GC") await this.#add(DROPPED);
  }

  #add(target: { container?: string; ifname?: string; deviceID?: string }): Promise<RigAnswer> {
    const { deviceID = "sockets-00001", ...where } = target;
    return this.#node.rig.call("ADD", { ...where, config: this.#config({ deviceID }) });
  }

  #once(): Promise<RigAnswer> {
    const keys = {
      ...(this.#verb === "CHECK" ? { prevResult: this.#added } : {}),
      ...(this.#verb === "GC"
        ? { "cni.dev/valid-attachments": [{ containerID: "c1", ifname: "net1" }, OTHER_CONTAINER] }
        : {}),
    };
    return this.#node.rig.call(this.#verb, { config: this.#config(keys) });
  }

  #config(keys: object): object {
    return { cniVersion: this.#version, ipam: { type: this.#node.ipam.type }, ...keys };
  }

  async #mark(ifname: string, state: "attaching" | "detaching"): Promise<void> {
    const { ports } = this.#node.rig.records;
    const record = portOfSandbox(ports.list(), { containerId: "c1", interfaceName: ifname });
    if (record?.lease === undefined) throw new Error(`no addresses of ${ifname}`);
    const { given: _, ...lease } = record.lease;
    await ports.put({ ...record, state, lease: state === "attaching" ? lease : record.lease });
  }

  get #isKnown(): boolean {
    const order = SUPPORTED_CNI_VERSIONS;
    return order.indexOf(this.#version) >= order.indexOf(SINCE[this.#verb]);
  }

  #statesAfter(): string[] {
    if (this.#verb === "DEL") return [];
    return this.#verb === "GC" && !this.#isKnown ? [ATTACHED, "c1 net2 attached"] : [ATTACHED];
  }

  /** Records, switch and IPAM plugin have the same attachments. */
  async #expectLeft(states: readonly string[]): Promise<void> {
    const { rig, ipam } = this.#node;
    const attachments = states.map((state) => state.split(" ").slice(0, 2).join(" ")).sort();
    expect(rig.states()).toEqual([...states].sort());
    expect(await rig.portsOfSwitch()).toEqual(attachments);
    expect(await ipam.held()).toEqual(attachments);
  }

  #checkAnswer({ exitCode, json }: RigAnswer): Outcome {
    if (!this.#isKnown) {
      this.#checkError({ exitCode, json }, 1);
      return "error 1";
    }
    expect(exitCode, JSON.stringify(json)).toBe(0);
    if (this.#verb === "ADD") return this.#checkResult(json);
    if (this.#verb === "VERSION") {
      expect(json).toEqual({ cniVersion: this.#version, supportedVersions: [...SUPPORTED_CNI_VERSIONS] });
      return "versions";
    }
    expect(json).toBeUndefined();
    return "success";
  }

  #checkResult(json: RigAnswer["json"]): Outcome {
    const result = checkResult(json);
    expect(result).toMatchObject({
      cniVersion: this.#version,
      interfaces: [{ name: "net1", mac: expect.stringMatching(/^[0-9a-f:]{17}$/) }],
      ips: [{ address: expect.stringMatching(/^10\.9\.0\.\d+\/24$/), interface: 0 }],
      routes: [{ dst: "0.0.0.0/0" }],
      dns: { nameservers: ["10.9.0.53"] },
    });
    return "result";
  }

  #checkError({ exitCode, json }: RigAnswer, code: number): void {
    expect(exitCode).toBe(1);
    expect(json).toMatchObject({ code, msg: expect.stringMatching(/\S/), cniVersion: expect.any(String) });
    expect(Object.keys(json ?? {}).filter((key) => !ERROR_KEYS.includes(key))).toEqual([]);
  }

  #garbage(): readonly { what: string; call: RigCall; code: number }[] {
    const verb = this.#verb;
    const isOfContainer = verb === "ADD" || verb === "DEL" || verb === "CHECK";
    const needsNetns = verb === "ADD" || verb === "CHECK";
    const stdin = (what: string, config: string | Buffer | object, code: number) => ({
      what,
      call: { config },
      code: readsStdin(verb) ? code : 0,
    });
    const environment = (name: string, value: string | undefined, applies: boolean) => ({
      what: `${name}=${value}`,
      call: { config: this.#config({}), env: { [name]: value } },
      code: applies ? 4 : this.#codeOfPlain(),
    });
    return [
      stdin("nothing", "", 6),
      stdin("half an object", `{"cniVersion":"${this.#version}","name":`, 6),
      stdin("a list", "[]", 6),
      stdin("bytes", Buffer.from(Array.from({ length: 4096 }, (_, index) => (index * 37) % 256)), 6),
      stdin("a large text", " ".repeat(1024 * 1024), 6),
      stdin("no version", { cniVersion: undefined }, 1),
      stdin("an old version", { cniVersion: "0.2.0" }, 1),
      stdin("a wrong name", this.#config({ name: "../net" }), 7),
      stdin("a wrong value", this.#config({ vlan: "many" }), 7),
      environment("CNI_CONTAINERID", undefined, isOfContainer),
      environment("CNI_CONTAINERID", "../../etc", isOfContainer),
      environment("CNI_IFNAME", "a/b", isOfContainer),
      environment("CNI_NETNS", undefined, needsNetns),
    ];
  }

  /** Of the verb without the keys that it may need beside the usual ones. */
  #codeOfPlain(): number {
    if (!this.#isKnown) return 1;
    return this.#verb === "CHECK" ? 106 : 0;
  }
}

/** DEL and VERSION do without. */
const readsStdin = (verb: Verb): boolean => verb !== "DEL" && verb !== "VERSION";

/** An attachment of no known pod: a runtime lists attachments of all kinds of pods. */
const OTHER_CONTAINER = { containerID: "c2", ifname: "net9" };
const ERROR_KEYS = ["cniVersion", "code", "msg", "details"];
