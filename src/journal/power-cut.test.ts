import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Machine } from "../../test/model/machine.ts";
import { simulateFiles } from "../../test/model/simulated-files.ts";
import { Simulation } from "../../test/model/simulation.ts";
import { silentLogger } from "../logging/logger.ts";
import { Journal } from "./journal.ts";

let restore: () => void;
beforeAll(() => {
  restore = simulateFiles();
});
afterAll(() => restore());

const SEEDS = Array.from({ length: 12 }, (_, seed) => seed);

/** A machine whose programs keep a journal, and what was confirmed to them. */
class Writer {
  readonly simulation: Simulation;
  readonly machine: Machine;
  readonly confirmed = new Map<string, string>();

  constructor(seed: number) {
    this.simulation = new Simulation(seed);
    this.machine = new Machine("node-1", this.simulation);
  }

  /** Runs a program that opens the journal and appends, until it has done so many things with its files. */
  async run(values: readonly string[], events = Number.POSITIVE_INFINITY) {
    const program = this.machine.run();
    program.killAfter(events);
    const work = async () => {
      const { journal, content } = await open(program.root);
      for (const value of values) {
        await journal.append(`key ${value}`, value);
        this.confirmed.set(`key ${value}`, value);
      }
      return content;
    };
    const working = work();
    await this.simulation.advance(60_000);
    return program.isAlive ? await working : undefined;
  }

  loseMachine(): void {
    this.machine.powerOff();
    this.machine.powerOn();
  }
}

function open(root: string) {
  const format = { version: 1, parse: String };
  const directory = `${root}/var/lib/journal`;
  return Journal.open({ directory, durable: true, logger: silentLogger, compactAbove: 200, ...format });
}

describe("a journal", () => {
  it.each(SEEDS)(
    "has all that was confirmed before a power cut, whenever that comes (seed %i)",
    async (seed) => {
      for (let events = 0; events < 60; events++) {
        const writer = new Writer(seed * 100 + events);
        await writer.run(["one", "two", "three", "four", "five"], events);
        writer.loseMachine();
        const content = await writer.run(["six"]);
        for (const [key, value] of writer.confirmed)
          if (key !== "key six") expect([key, content?.values.get(key)]).toEqual([key, value]);
      }
    },
  );

  it.each(SEEDS)("has it also where the process before was killed at any moment (seed %i)", async (seed) => {
    for (let events = 0; events < 60; events++) {
      const writer = new Writer(seed * 100 + events);
      await writer.run(["one", "two", "three"], events);
      await writer.run(["four", "five"]);
      writer.loseMachine();
      const content = await writer.run([]);
      for (const [key, value] of writer.confirmed)
        expect([key, content?.values.get(key)]).toEqual([key, value]);
    }
  });
});
