// The parts of prom-client that we use, imported one by one: its index loads OpenTelemetry and a cluster module with
// them, which costs 11 ms of the daemon's start and 2 MB. The version is pinned.
declare module "prom-client/lib/registry.js" {
  import { Registry } from "prom-client";
  export = Registry;
}
declare module "prom-client/lib/counter.js" {
  import { Counter } from "prom-client";
  export = Counter;
}
declare module "prom-client/lib/gauge.js" {
  import { Gauge } from "prom-client";
  export = Gauge;
}
declare module "prom-client/lib/histogram.js" {
  import { Histogram } from "prom-client";
  export = Histogram;
}
