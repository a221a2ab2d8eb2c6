import { plural } from "../../words.ts";
import type { Health, PageBridge, PageInterface, PageNode, PagePod } from "../page-shape.ts";

/** What each state is called. */
export const HEALTH_WORDS: Readonly<Record<Health, string>> = {
  healthy: "healthy",
  degraded: "waiting",
  broken: "broken",
};

/** The state of a whole node in a sentence. */
export function nodeWords({ health, problems, interfaces }: PageNode): string {
  switch (health) {
    case "healthy":
      return "All is well";
    case "degraded":
      return `${plural(interfaces.degraded, "interface")} ${interfaces.degraded === 1 ? "waits" : "wait"} for ${interfaces.degraded === 1 ? "its" : "their"} guest`;
    case "broken":
      return plural(problems.length, "problem");
  }
}

/** A pod and its state in one line, for screen readers. */
export function podLabel({ namespace, name, health, interfaces }: PagePod): string {
  const broken = interfaces.flatMap((one) =>
    one.broken === undefined ? [] : [`${one.name} at ${one.broken.name}: ${one.broken.what}`],
  );
  const count = plural(interfaces.length, "interface");
  return `Pod ${namespace}/${name}, ${count}, ${[HEALTH_WORDS[health], ...broken].join("; ")}. Show its chain`;
}

/** What is at a socket's path. */
export const SOCKET_WORDS: Readonly<Record<PageInterface["socket"], string>> = {
  there: "there",
  missing: "not there",
  wrong: "replaced by something else",
  unknown: "not known",
};

/** The state of a port, in full and as short as its box needs. */
export function portState({ port, portKnown }: Pick<PageInterface, "port" | "portKnown">): {
  readonly full: string;
  readonly short: string;
} {
  if (!portKnown) return { full: "not known: the switch cannot be read", short: "?" };
  if (port === undefined) return { full: "missing", short: "missing" };
  if (port.failed) return { full: "failed", short: "failed" };
  const { link, queuePairs } = port;
  if (queuePairs === undefined) return { full: `link ${link}`, short: link };
  return { full: `link ${link}, ${plural(queuePairs, "pair")} of queues`, short: `${link} · ${queuePairs}q` };
}

/** What a switch is, a line for each of its parts. */
export function switchWords({ kind, version }: Pick<PageBridge, "kind" | "version">): readonly string[] {
  return (version ?? kind ?? "switch").split(", ").slice(0, 2);
}

/** A rate in at most ten characters. @param rate packets a second */
export function rateWords(rate: number): string {
  if (rate >= 999_500) return `${(rate / 1_000_000).toFixed(2)} Mpps`;
  if (rate >= 99_950) return `${Math.round(rate / 1_000)} kpps`;
  return rate >= 999.5 ? `${(rate / 1_000).toFixed(1)} kpps` : `${Math.round(rate)} pps`;
}
