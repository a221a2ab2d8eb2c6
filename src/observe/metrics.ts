import Counter from "prom-client/lib/counter.js";
import Gauge from "prom-client/lib/gauge.js";
import Histogram from "prom-client/lib/histogram.js";
import Registry from "prom-client/lib/registry.js";
import {
  type DeclaredMetric,
  type DeclaredMetrics,
  type LabelsOf,
  METRICS,
  type MetricName,
} from "./declared-metrics.ts";

/** Puts values in at the moment of a scrape. */
export type Collector = () => void | Promise<void>;

/** One series of a counter. */
export interface Count {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The metrics of one program: those that are declared and no other, in a registry of their own. */
export class MetricSet<Declared extends DeclaredMetrics> {
  readonly #registry = new Registry();
  readonly #metrics: ReadonlyMap<string, Counter | Gauge | Histogram>;
  readonly #zeroed = new Set<string>();
  readonly #collectors: readonly Collector[];

  /** @param collectors run in turn at every scrape, before the text is made */
  constructor(declared: Declared, collectors: readonly Collector[] = []) {
    this.#collectors = collectors;
    this.#metrics = new Map(
      Object.entries<DeclaredMetric>(declared).map(
        ([name, { type, help, labels: labelNames, buckets = [] }]): [string, Counter | Gauge | Histogram] => {
          const options = { name, help, labelNames, registers: [this.#registry] };
          if (type === "histogram") return [name, new Histogram({ ...options, buckets: [...buckets] })];
          return [name, type === "counter" ? new Counter(options) : new Gauge(options)];
        },
      ),
    );
  }

  #get<Metric>(name: string): Metric {
    return this.#metrics.get(name) as Metric;
  }

  /** Media type of {@link Metrics.text}. */
  get contentType(): string {
    return this.#registry.contentType;
  }

  /** All metrics in Prometheus' text format 0.0.4. */
  async text(): Promise<string> {
    for (const collect of this.#collectors) await collect();
    return this.#registry.metrics();
  }

  /** What a counter has come to, one for each of its series. */
  async counts(name: MetricName<Declared, "counter">): Promise<readonly Count[]> {
    const { values } = await this.#get<Counter>(name).get();
    return values.map(({ labels, value }) => ({ labels: { ...labels } as Count["labels"], value }));
  }

  /** Adds to a counter; adding 0 makes its series appear, so that `increase()` sees the first event. */
  count<Name extends MetricName<Declared, "counter">>(
    name: Name,
    labels: LabelsOf<Declared[Name]>,
    by = 1,
  ): void {
    this.#get<Counter>(name).inc(labels, by);
  }

  /** Adds one measurement, in the metric's unit, to a histogram. */
  observe<Name extends MetricName<Declared, "histogram">>(
    name: Name,
    labels: LabelsOf<Declared[Name]>,
    value: number,
  ): void {
    this.#get<Histogram>(name).observe(labels, value);
  }

  /** Makes a histogram's series appear with nothing in it; repeated, it changes nothing. */
  zero<Name extends MetricName<Declared, "histogram">>(name: Name, labels: LabelsOf<Declared[Name]>): void {
    const series = JSON.stringify([name, labels]);
    // The client's own would forget what was observed.
    if (!this.#zeroed.has(series)) this.#get<Histogram>(name).zero(labels);
    this.#zeroed.add(series);
  }

  /** Sets one series of a gauge. */
  set<Name extends MetricName<Declared, "gauge">>(
    name: Name,
    labels: LabelsOf<Declared[Name]>,
    value: number,
  ): void {
    this.#get<Gauge>(name).set(labels, value);
  }

  /** Replaces all series of a gauge, or of a counter that is kept elsewhere, by one for each item. */
  replace<Name extends MetricName<Declared, "gauge" | "counter">, Item>(
    name: Name,
    items: readonly Item[],
    seriesOf: (item: Item) => readonly [labels: LabelsOf<Declared[Name]>, value: number],
  ): void {
    const metric = this.#get<Counter | Gauge>(name);
    metric.reset();
    for (const [labels, value] of items.map(seriesOf)) metric.inc(labels, value);
  }
}

/** The daemon's metrics. */
export class Metrics extends MetricSet<typeof METRICS> {
  constructor(collectors: readonly Collector[] = []) {
    super(METRICS, collectors);
  }
}
