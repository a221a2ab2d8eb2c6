import type { Aim, Figure, Growth, Measurement, SuiteDefinition, Unit } from "./measurement.ts";
import { type Spread, spreadOf } from "./spread.ts";

/** How a suite is run. */
export interface RunSuiteOptions {
  /** Says which measurement begins. */
  readonly show: (text: string) => void;
  /** Ends the suite before its next repetition. */
  readonly signal: AbortSignal;
  /** One repetition of each measurement, without a warm-up. */
  readonly isTrial?: boolean | undefined;
}

/** Takes all measurements of a suite, one after the other, and gives its figures in order. */
export async function runSuite<Rig>(
  suite: SuiteDefinition<Rig>,
  rig: Rig,
  options: RunSuiteOptions,
): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  for (const [index, measurement] of suite.measurements.entries()) {
    options.show(`measurement ${index + 1} of ${suite.measurements.length}, ${measurement.name}`);
    const taken = options.isTrial === true ? { ...measurement, repetitions: 1, warmUp: 0 } : measurement;
    figures.push(...(await take(suite.name, taken, rig, options.signal)));
  }
  return [...figures, ...(suite.growths ?? []).map((growth) => growthOf(growth, figures, suite.name))];
}

async function take<Rig>(
  suite: string,
  measurement: Measurement<Rig>,
  rig: Rig,
  signal: AbortSignal,
): Promise<readonly Figure[]> {
  const { name, unit, aim, aimP95 = aim, aimP99 } = measurement;
  const samples = await sampleAlternately(measurement, rig, signal);
  const ours = spreadOf(samples.ours);
  const peer = samples.peer.length === 0 ? undefined : spreadOf(samples.peer);
  const figure = (suffix: string, which: keyof Spread, aim: Aim | undefined) =>
    toFigure({ suite, name: `${name}${suffix}`, unit, ours: ours[which], peer: peer?.[which], aim });
  if (measurement.shows === "median") return [figure("", "median", aim)];
  const high = aimP99 === undefined ? figure(", p95", "p95", aimP95) : figure(", p99", "p99", aimP99);
  return [figure(", median", "median", aim), high];
}

/**
 * Ours and the peer's alternately, each of them first every other round, so that other work on the machine affects both
 * alike.
 */
async function sampleAlternately<Rig>(
  measurement: Measurement<Rig>,
  rig: Rig,
  signal: AbortSignal,
): Promise<{ readonly ours: readonly number[]; readonly peer: readonly number[] }> {
  const { peer, warmUp = 0, repetitions } = measurement;
  const samples = { ours: [] as number[], peer: [] as number[] };
  await measurement.prepare?.(rig);
  for (let round = -warmUp; round < repetitions; round++) {
    const takeOurs = async () => {
      const value = await measurement.ours(rig);
      if (round >= 0) samples.ours.push(...[value].flat());
    };
    const takePeer = async () => {
      const value = await peer?.(rig);
      if (round >= 0) samples.peer.push(...[value ?? []].flat());
    };
    for (const take of round % 2 === 0 ? [takeOurs, takePeer] : [takePeer, takeOurs]) {
      signal.throwIfAborted();
      await take();
    }
  }
  return samples;
}

function growthOf({ name, of, over, aim }: Growth, figures: readonly Figure[], suite: string): Figure {
  const find = (wanted: string): Figure => {
    const found = figures.find((figure) => figure.name === wanted);
    if (found === undefined) throw new Error(`${name}: no figure ${JSON.stringify(wanted)}`);
    return found;
  };
  const [large, small] = [find(of), find(over)];
  const peer = large.peer === null || small.peer === null ? undefined : large.peer / small.peer;
  return toFigure({ suite, name, unit: "x", ours: large.ours / small.ours, peer, aim });
}

function toFigure(figure: {
  readonly suite: string;
  readonly name: string;
  readonly unit: Unit;
  readonly ours: number;
  readonly peer: number | undefined;
  readonly aim: Aim | undefined;
}): Figure {
  const { suite, name, unit, ours, peer, aim } = figure;
  const ratio = peer === undefined ? null : rounded(ours / peer);
  const values = { ours: rounded(ours), peer: peer === undefined ? null : rounded(peer), ratio };
  return { suite, name, unit, ...values, aim: aim?.text ?? "none", holds: aim?.holds(values) ?? null };
}

/** Three decimals: anything below was not measured. */
function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}
