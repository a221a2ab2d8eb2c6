import Counter from "prom-client/lib/counter.js";
import Gauge from "prom-client/lib/gauge.js";
import Histogram from "prom-client/lib/histogram.js";
import Registry from "prom-client/lib/registry.js";
import { type DeclaredMetric, type LabelsOf, METRICS, type MetricName } from "./declared-metrics.ts";

/** Puts values in at the moment of a scrape. */
export type Collector = (metrics: Metrics) => void | Promise<void>;

/** One series of a counter. */
export interface Count {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The daemon's metrics: those that are declared and no other, in a registry of their own. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #counters = new Map<string, Counter>();
  readonly #gauges = new Map<string, Gauge>();
  readonly #histograms = new Map<string, Histogram>();
  readonly #zeroed = new Set<string>();
  readonly #collectors: readonly Collector[];

  /** @param collectors run in turn at every scrape, before the text is made */
  constructor(collectors: readonly Collector[] = []) {
    this.#collectors = collectors;
    for (const [name, declared] of Object.entries<DeclaredMetric>(METRICS)) {
      const { help, labels } = declared;
      const options = { name, help, labelNames: labels, registers: [this.#registry] };
      if (declared.type === "counter") this.#counters.set(name, new Counter(options));
      if (declared.type === "gauge") this.#gauges.set(name, new Gauge(options));
      if (declared.type === "histogram") {
        const buckets = [...(declared.buckets ?? [])];
        this.#histograms.set(name, new Histogram({ ...options, buckets }));
      }
    }
  }

  /** Media type of {@link Metrics.text}. */
  get contentType(): string {
    return this.#registry.contentType;
  }

  /** All metrics in Prometheus' text format 0.0.4. */
  async text(): Promise<string> {
    for (const collect of this.#collectors) await collect(this);
    return this.#registry.metrics();
  }

  /** What a counter has come to, one for each of its series. */
  async counts(name: MetricName<"counter">): Promise<readonly Count[]> {
    const { values } = (await this.#counters.get(name)?.get()) ?? { values: [] };
    return values.map(({ labels, value }) => ({ labels: { ...labels } as Count["labels"], value }));
  }

  /** Adds to a counter; adding 0 makes its series appear, so that `increase()` sees the first event. */
  count<Name extends MetricName<"counter">>(name: Name, labels: LabelsOf<Name>, by = 1): void {
    this.#counters.get(name)?.inc(labels, by);
  }

  /** Adds one measurement, in the metric's unit, to a histogram. */
  observe<Name extends MetricName<"histogram">>(name: Name, labels: LabelsOf<Name>, value: number): void {
    this.#histograms.get(name)?.observe(labels, value);
  }

  /** Makes a histogram's series appear with nothing in it; repeated, it changes nothing. */
  zero<Name extends MetricName<"histogram">>(name: Name, labels: LabelsOf<Name>): void {
    const series = JSON.stringify([name, labels]);
    // The client's own would forget what was observed.
    if (!this.#zeroed.has(series)) this.#histograms.get(name)?.zero(labels);
    this.#zeroed.add(series);
  }

  /** Sets one series of a gauge. */
  set<Name extends MetricName<"gauge">>(name: Name, labels: LabelsOf<Name>, value: number): void {
    this.#gauges.get(name)?.set(labels, value);
  }

  /** Replaces all series of a gauge, or of a counter that is kept elsewhere, by one for each item. */
  replace<Name extends MetricName<"gauge" | "counter">, Item>(
    name: Name,
    items: readonly Item[],
    seriesOf: (item: Item) => readonly [labels: LabelsOf<Name>, value: number],
  ): void {
    const gauge = this.#gauges.get(name);
    const counter = this.#counters.get(name);
    gauge?.reset();
    counter?.reset();
    for (const [labels, value] of items.map(seriesOf)) {
      gauge?.set(labels, value);
      counter?.inc(labels, value);
    }
  }
}
