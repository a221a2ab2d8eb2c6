/** What a figure counts. */
export type Unit = "ms" | "KiB" | "MB" | "x" | "%" | "messages" | "writes";

/** What a figure should be, and whether it is. */
export interface Aim {
  /** For people, for example `ratio <= 1`. */
  readonly text: string;
  /** Null where the figure has no peer to compare with. */
  readonly holds: (figure: Pick<Figure, "ours" | "ratio">) => boolean | null;
}

/** One figure of a run; the elements of what `npm run bench -- --json` prints. */
export interface Figure {
  readonly suite: string;
  readonly name: string;
  readonly unit: Unit;
  readonly ours: number;
  /** The same work done the other way; null where no other program does it. */
  readonly peer: number | null;
  /** ours / peer. */
  readonly ratio: number | null;
  /** The aim's text, `none` where a figure is there to be watched. */
  readonly aim: string;
  readonly holds: boolean | null;
}

/** Something to be measured on a rig. */
export interface Measurement<Rig> {
  /** Unique in its suite and stable: figures are compared over releases by it. */
  readonly name: string;
  readonly unit: Unit;
  /** One repetition: makes ready, measures, tidies up, and gives the measured values alone, in the unit. */
  readonly ours: (rig: Rig) => Promise<number | readonly number[]>;
  readonly peer?: (rig: Rig) => Promise<number | readonly number[]>;
  readonly repetitions: number;
  /** Repetitions before those that count; default 0. */
  readonly warmUp?: number;
  /** Once, before the warm-up. */
  readonly prepare?: (rig: Rig) => Promise<void>;
  /** `spread` (default) gives two figures, median and p95; `median` one, for what hardly varies. */
  readonly shows?: "spread" | "median";
  readonly aim?: Aim;
  /** Of the 95th percentile; default the same aim. */
  readonly aimP95?: Aim;
  /** Shows the 99th percentile instead of the 95th, with this aim. */
  readonly aimP99?: Aim;
}

/** A figure made of two others of the same suite: how many times `of` is as large as `over`. */
export interface Growth {
  readonly name: string;
  readonly of: string;
  readonly over: string;
  readonly aim?: Aim;
}

/** The measurements of one subject, which share a rig. */
export interface SuiteDefinition<Rig> {
  readonly name: string;
  /** What the peer is, in a line; null without a peer. */
  readonly peer: string | null;
  readonly measurements: readonly Measurement<Rig>[];
  readonly growths?: readonly Growth[];
}

/** An aim that our own figure is at most so much, in its unit. */
export function atMost(limit: number, text: string): Aim {
  return { text, holds: ({ ours }) => ours <= limit };
}

/** An aim that we need at most so many times what the peer needs. */
export function ratioAtMost(limit: number): Aim {
  return { text: `ratio <= ${limit}`, holds: ({ ratio }) => (ratio === null ? null : ratio <= limit) };
}
