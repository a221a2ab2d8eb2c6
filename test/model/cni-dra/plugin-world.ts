import type { Delegate } from "../../../src/ipam/ipam.ts";
import type { Program } from "../machine.ts";
import type { Simulation } from "../simulation.ts";

/** An interface that a plugin has made. */
interface Made {
  readonly netns: string;
  readonly sandbox: string;
  readonly ifName: string;
}

/** A node's network namespaces, and what CNI plugins have made: interfaces that go with theirs, and addresses that stay. */
export class PluginWorld {
  readonly netns = new Set<string>();
  readonly interfaces = new Map<string, Made>();
  /** As host-local keeps them: by network, container and interface. */
  readonly addresses = new Set<string>();
  /** How many of a hundred calls fail, and how many take longer than a runtime waits. */
  chances = { add: 0, del: 0, slow: 0 };
  /** Called before an interface is removed whose network namespace is there. */
  onRemoved: (made: Made) => void = () => undefined;
  violation: string | undefined;
  added = 0;
  readonly #simulation: Simulation;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  violate(what: string): void {
    this.violation ??= what;
  }

  setChance(of: keyof PluginWorld["chances"], percent = 0): void {
    this.chances[of] = percent;
  }

  has(sandbox: string, ifName: string): boolean {
    return this.interfaces.has(keyOf(sandbox, ifName));
  }

  removeNetns(path: string): void {
    this.netns.delete(path);
    for (const [key, { netns }] of this.interfaces) if (netns === path) this.interfaces.delete(key);
  }

  /** Executes plugins for a program; they end with it, as processes do with their container. */
  delegateOf(program: Program): Delegate {
    const moment = () =>
      new Promise<void>((resolve) => program.after(this.#simulation.between(1, 20), () => resolve()));
    return async ({ type, env, stdin }) => {
      const {
        CNI_COMMAND: verb,
        CNI_CONTAINERID: sandbox = "",
        CNI_IFNAME: ifName = "",
        CNI_NETNS: netns = "",
      } = env;
      const { name } = JSON.parse(Buffer.from(stdin).toString("utf8")) as { readonly name: string };
      await moment();
      const { add, del, slow } = this.chances;
      if (this.#simulation.percent(slow))
        await new Promise<void>((resolve) => program.after(4_000, () => resolve()));
      const isMain = type === "main";
      const address = `${name} ${keyOf(sandbox, ifName)}`;
      const fails = this.#simulation.percent(verb === "ADD" ? add : del);
      if (verb === "DEL") {
        if (fails) return failed("busy");
        if (!isMain) return { exitCode: 0, stdout: "" };
        this.#removeInterface(keyOf(sandbox, ifName));
        await moment();
        this.addresses.delete(address);
        return { exitCode: 0, stdout: "" };
      }
      if (!this.netns.has(netns)) return failed("no such network namespace");
      if (isMain) {
        if (this.addresses.has(address)) this.violate(`a second ADD without a DEL for ${address}`);
        this.addresses.add(address);
        await moment();
        if (!this.netns.has(netns)) return failed("no such network namespace");
        this.interfaces.set(keyOf(sandbox, ifName), { netns, sandbox, ifName });
        await moment();
        this.added += 1;
      }
      if (fails) return failed("no carrier");
      return {
        exitCode: 0,
        stdout: JSON.stringify({ cniVersion: "1.0.0", interfaces: [{ name: ifName, sandbox: netns }] }),
      };
    };
  }

  #removeInterface(key: string): void {
    const made = this.interfaces.get(key);
    if (made === undefined) return;
    this.onRemoved(made);
    this.interfaces.delete(key);
  }
}

function keyOf(sandbox: string, ifName: string): string {
  return `${sandbox} ${ifName}`;
}

function failed(msg: string) {
  return { exitCode: 1, stdout: JSON.stringify({ cniVersion: "1.0.0", code: 100, msg }) };
}
