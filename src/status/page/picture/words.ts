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
      return interfaces.degraded === 1
        ? "1 interface waits for its guest"
        : `${interfaces.degraded} interfaces wait for their guest`;
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

/** A port's VLANs; undefined where it has no setting. */
export function vlanWords({ vlan }: Pick<PageInterface, "vlan">): string | undefined {
  if (vlan === undefined) return undefined;
  const { mode, tag, trunks } = vlan;
  const carried = trunks.length === 0 ? "all" : trunks.join(", ");
  if (mode === "access") return `${tag}`;
  const words = tag === undefined ? mode : `${tag} ${mode}`;
  return mode === "dot1q-tunnel" ? words : `${words}, carries ${carried}`;
}

/** What a guest's owner knows its NIC by, beside its name. */
export function nicWords(one: PageInterface): string {
  const vlan = vlanWords(one);
  const parts = [one.mac, vlan && `VLAN ${vlan}`, ...(one.addresses ?? [])];
  return parts.filter((part) => part !== undefined).join(" · ");
}

/** Whether a text that a reader searches for is in a name of a pod or in what its NICs are known by. */
export function foundBy(text: string, { namespace, name, interfaces }: PagePod): boolean {
  const known = interfaces.flatMap((one) => [one.name, one.network, nicWords(one), one.portName]);
  const wanted = text.trim().toLowerCase();
  return [`${namespace}/${name}`, ...known].some((each) => each?.toLowerCase().includes(wanted));
}

/** What is at a socket's path. */
export const SOCKET_WORDS: Readonly<Record<PageInterface["socket"], string>> = {
  socket: "there",
  missing: "not there",
  directory: "replaced by a directory",
  other: "replaced by something else",
  unknown: "not known",
};

/** The state of a port: its style, in full, and as short as its box needs. */
export function portState({ port, portUnknown }: Pick<PageInterface, "port" | "portUnknown">): {
  readonly kind: "unknown" | "gone" | "failed" | "there";
  readonly full: string;
  readonly short: string;
} {
  if (portUnknown !== undefined) {
    return { kind: "unknown", full: "not known: the switch cannot be read", short: "?" };
  }
  if (port === undefined) return { kind: "gone", full: "missing", short: "missing" };
  if (port.error !== undefined) return { kind: "failed", full: "failed", short: "failed" };
  const { link, queuePairs: pairs } = port;
  if (pairs === undefined) return { kind: "there", full: `link ${link}`, short: link };
  return {
    kind: "there",
    full: `link ${link}, ${plural(pairs, "pair")} of queues`,
    short: `${link} · ${pairs}q`,
  };
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
