import { randomBytes } from "node:crypto";

/** What an event is about. */
export type Regarding =
  | { readonly kind: "Pod"; readonly namespace: string; readonly name: string; readonly uid: string }
  | { readonly kind: "Node"; readonly name: string };

/** Something that happened, for people who look with kubectl. */
export interface NodeEvent {
  readonly regarding: Regarding;
  readonly type: "Normal" | "Warning";
  /** Why it happened, one word that a machine can match, such as `InterfaceAttached`. */
  readonly reason: string;
  /** What was done or tried, one word. */
  readonly action: string;
  /** A sentence or two for people; cut to {@link NOTE_MAX_BYTES}. */
  readonly note: string;
  /** Tells apart what is of one object and reason, such as an interface's name. */
  readonly subject?: string;
}

/** How often an event happened beyond its first time, as events.k8s.io/v1 has it. */
export interface EventSeries {
  /** At least 2. */
  readonly count: number;
  readonly lastObservedTime: string;
}

/** Who posts. */
export interface Reporter {
  /** Name of the daemon's pod, or of the node. */
  readonly instance: string;
}

/** The API server counts bytes, and refuses longer notes (`NoteLengthLimit` of its validation). */
const NOTE_MAX_BYTES = 1024;
const INSTANCE_MAX_BYTES = 128;
const NAME_MAX = 253;
const CONTROLLER = "kube-vhostuser.io/daemon";
/** Events of what has no namespace are kept there; kubelet's about its node as well. */
const CLUSTER_NAMESPACE = "default";
const DNS_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/** Whether Kubernetes can have an object of this name; a runtime, or a test of one, may pass anything. */
export function isNamed(regarding: Regarding): boolean {
  const { name } = regarding;
  if (!DNS_SUBDOMAIN.test(name) || name.length > NAME_MAX) return false;
  return regarding.kind === "Node" || DNS_LABEL.test(regarding.namespace);
}

/** Namespace in which an event about this must be made. */
export function namespaceOf(regarding: Regarding): string {
  return regarding.kind === "Pod" ? regarding.namespace : CLUSTER_NAMESPACE;
}

/** A name that no other event has. */
export function eventName({ name }: Regarding): string {
  const suffix = `.${randomBytes(8).toString("hex")}`;
  return `${name.slice(0, NAME_MAX - suffix.length).replace(/[^a-z0-9]+$/, "")}${suffix}`;
}

/** Time with the six digits that the API server insists on (`MicroTime`). */
export function microTime(ms: number): string {
  return new Date(ms).toISOString().replace(/Z$/, "000Z");
}

/** An event as events.k8s.io/v1 takes it at POST; everything in it but `series` can never be changed. */
export function eventObject(
  event: NodeEvent,
  { instance }: Reporter,
  made: { readonly name: string; readonly at: number; readonly series?: EventSeries | undefined },
): object {
  const { regarding } = event;
  return {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata: { name: made.name, namespace: namespaceOf(regarding) },
    eventTime: microTime(made.at),
    reportingController: CONTROLLER,
    reportingInstance: cut(instance, INSTANCE_MAX_BYTES),
    action: event.action,
    reason: event.reason,
    type: event.type,
    note: cut(event.note, NOTE_MAX_BYTES),
    regarding: {
      apiVersion: "v1",
      kind: regarding.kind,
      name: regarding.name,
      ...(regarding.kind === "Pod" ? { namespace: regarding.namespace } : {}),
      // `kubectl describe` finds events by it; of a node, kubelet's name for it, which we know without asking.
      ...uidOf(regarding),
    },
    ...(made.series === undefined ? {} : { series: made.series }),
  };
}

function uidOf(regarding: Regarding): { readonly uid?: string } {
  if (regarding.kind === "Node") return { uid: regarding.name };
  return regarding.uid === "" ? {} : { uid: regarding.uid };
}

/** To so many bytes of UTF-8, without half a character at the end. */
function cut(text: string, bytes: number): string {
  if (Buffer.byteLength(text) <= bytes) return text;
  const ellipsis = "...";
  const kept = Buffer.from(text).subarray(0, bytes - ellipsis.length);
  return `${new TextDecoder().decode(kept, { stream: true })}${ellipsis}`;
}
