import { randomBytes } from "node:crypto";
import { microTime } from "../../kube-api/micro-time.ts";

/** What an event is about. */
export type Regarding =
  | { readonly kind: "Pod"; readonly namespace: string; readonly name: string; readonly uid: string }
  | { readonly kind: "Node"; readonly name: string }
  | {
      readonly kind: "IPAMClaim" | "VirtualMachineInstance";
      readonly namespace: string;
      readonly name: string;
      readonly uid: string;
    }
  | {
      readonly kind: "AddressPool" | "AddressBlock" | "MutatingWebhookConfiguration";
      readonly name: string;
      readonly uid: string;
    };

/** Every reason of an event, one word that a machine can match, and its type. */
export const EVENT_REASONS = {
  InterfaceAttached: "Normal",
  InterfaceFailed: "Warning",
  NetworkKeysIgnored: "Warning",
  InterfaceRepaired: "Normal",
  InterfaceNotRepaired: "Warning",
  InterfaceLinkDown: "Warning",
  InterfaceNotRemoved: "Warning",
  SwitchUnreachable: "Warning",
  SwitchReady: "Normal",
  AddressPoolNearlyFull: "Warning",
  AddressPoolExhausted: "Warning",
  AddressBlockQuarantined: "Warning",
  IPAMClaimRefused: "Warning",
  InterfaceClaimRefused: "Warning",
  ClaimsManagedElsewhere: "Warning",
} as const;

/** A program that posts events. */
export type EventProgram = "daemon" | "cni-dra" | "ipam-controller";

/** Something that happened, for readers of `kubectl describe`. */
export interface NodeEvent {
  readonly regarding: Regarding;
  readonly reason: keyof typeof EVENT_REASONS;
  /** What was done or tried, one word. */
  readonly action: string;
  /** A sentence or two; cut to the API server's limit. */
  readonly note: string;
  /** Distinguishes events of one object and reason, for example an interface's name. */
  readonly subject?: string;
}

/** How often an event happened, as events.k8s.io/v1 has it. */
export interface EventSeries {
  /** At least 2. */
  readonly count: number;
  readonly lastObservedTime: string;
}

/** Limits of the API server's validation (`NoteLengthLimit`, `ReportingInstanceLengthLimit`), in bytes. */
const NOTE_MAX_BYTES = 1024;
const INSTANCE_MAX_BYTES = 128;
const IPAM_VERSION = "ipam.kube-vhostuser.io/v1alpha1";
const API_VERSIONS: Readonly<Record<Regarding["kind"], string>> = {
  ...{ Pod: "v1", Node: "v1" },
  ...{ AddressPool: IPAM_VERSION, AddressBlock: IPAM_VERSION },
  ...{ IPAMClaim: "k8s.cni.cncf.io/v1alpha1", VirtualMachineInstance: "kubevirt.io/v1" },
  MutatingWebhookConfiguration: "admissionregistration.k8s.io/v1",
};
const NAME_MAX = 253;
const DNS_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/** Whether Kubernetes can have an object of this name; a runtime may pass anything. */
export function isNamed(regarding: Regarding): boolean {
  const { name } = regarding;
  if (!DNS_SUBDOMAIN.test(name) || name.length > NAME_MAX) return false;
  return !("namespace" in regarding) || DNS_LABEL.test(regarding.namespace);
}

/** Namespace of events about this; those about an object without one are in `default`, as kubelet's own. */
export function namespaceOf(regarding: Regarding): string {
  return "namespace" in regarding ? regarding.namespace : "default";
}

/** A name that no other event has. */
export function eventName({ name }: Regarding): string {
  const suffix = `.${randomBytes(8).toString("hex")}`;
  return `${name.slice(0, NAME_MAX - suffix.length).replace(/[^a-z0-9]+$/, "")}${suffix}`;
}

/** An event as events.k8s.io/v1 accepts it at POST; nothing in it but `series` can be changed later. */
export function eventObject(
  { regarding, action, reason, note }: NodeEvent,
  made: {
    readonly name: string;
    /** Milliseconds since the epoch. */
    readonly at: number;
    /** Which program posts it. */
    readonly program: EventProgram;
    /** Name of the program's pod, or of the node. */
    readonly instance: string;
    readonly series?: EventSeries | undefined;
  },
): object {
  const { kind, name } = regarding;
  // `kubectl describe` finds events by uid; kubelet's for a node is the node's name.
  const uid = regarding.kind === "Node" ? name : regarding.uid;
  return {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata: { name: made.name, namespace: namespaceOf(regarding) },
    eventTime: microTime(made.at),
    reportingController: `kube-vhostuser.io/${made.program}`,
    reportingInstance: cut(made.instance, INSTANCE_MAX_BYTES),
    ...{ action, reason, type: EVENT_REASONS[reason], note: cut(note, NOTE_MAX_BYTES) },
    regarding: {
      ...{ apiVersion: API_VERSIONS[kind], kind, name },
      ...("namespace" in regarding ? { namespace: regarding.namespace } : {}),
      ...(uid === "" ? {} : { uid }),
    },
    series: made.series,
  };
}

/** To so many bytes of UTF-8, not within a character. */
function cut(text: string, bytes: number): string {
  if (Buffer.byteLength(text) <= bytes) return text;
  const ellipsis = "...";
  const kept = Buffer.from(text).subarray(0, bytes - ellipsis.length);
  return `${new TextDecoder().decode(kept, { stream: true })}${ellipsis}`;
}
