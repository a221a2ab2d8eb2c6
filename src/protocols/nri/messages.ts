// The messages of NRI, as far as a plugin needs them that follows pods (proto/nri).
import { FieldReader } from "../../grpc/field-reader.ts";
import { loadService } from "../../grpc/load-service.ts";
import { present } from "../../names/present.ts";

const PACKAGE = "nri.pkg.api.v1alpha1";
export const PLUGIN_SERVICE = `${PACKAGE}.Plugin`;
export const RUNTIME_SERVICE = `${PACKAGE}.Runtime`;

const plugin = loadService("nri/nri.proto", PLUGIN_SERVICE).definition;
const runtime = loadService("nri/nri.proto", RUNTIME_SERVICE).definition;
const ttrpc = loadService("nri/ttrpc.proto", "ttrpc.Messages").definition["Call"];

/** Events that a plugin asks for: RunPodSandbox, StopPodSandbox, RemovePodSandbox and CreateContainer. */
export const POD_EVENTS = 0b1111;

/** A sandbox, as the runtime describes it. */
export interface PodSandbox {
  /** Of the sandbox, which a pod can have several of, one after the other. */
  readonly id: string;
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  /** Path of its network namespace; undefined for a pod of the host's network, and at its stop with some runtimes. */
  readonly netns?: string;
}

/** A call of the runtime, decoded. */
export type PluginCall =
  | {
      readonly method: "Configure";
      /** Name and version, for example `containerd v2.2.9`. */
      readonly runtime: string;
      /** Until the runtime drops a plugin that has not answered a call, in milliseconds; undefined before NRI 0.7. */
      readonly requestTimeoutMs?: number;
    }
  | { readonly method: "Synchronize"; readonly pods: readonly PodSandbox[]; readonly more: boolean }
  | {
      readonly method: "RunPodSandbox" | "StopPodSandbox" | "RemovePodSandbox" | "CreateContainer";
      readonly pod: PodSandbox;
    }
  | { readonly method: "Ignored" };

const EVENTS = ["Ignored", "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"] as const;
/** The field with a pod, or with all of them. */
const POD_FIELD: Readonly<Record<string, number>> = {
  Synchronize: 1,
  RunPodSandbox: 1,
  StopPodSandbox: 1,
  RemovePodSandbox: 1,
  CreateContainer: 1,
  StateChange: 2,
};

interface WirePod extends Pick<PodSandbox, "id" | "name" | "namespace" | "uid"> {
  readonly linux: {
    readonly namespaces: readonly { readonly type: string; readonly path: string }[];
  } | null;
}

/**
 * Decodes a call on the plugin's service: an event of pods in whichever dialect it comes (StateChange before NRI 0.12).
 * @returns undefined for a method that is not known
 * @throws for bytes that are not such a message, or one of more fields than any node has
 */
export function decodeCall(method: string, payload: Buffer): PluginCall | undefined {
  const known = Object.hasOwn(plugin, method) ? plugin[method] : undefined;
  if (known === undefined) return undefined;
  limitFields(payload, POD_FIELD[method]);
  const request = known.requestDeserialize(payload);
  switch (method) {
    case "Configure":
      return present({
        method,
        runtime: `${request.runtime_name} ${request.runtime_version}`,
        requestTimeoutMs: request.request_timeout || undefined,
      });
    case "Synchronize":
      return { method, pods: request.pods.map(podOf), more: request.more };
    case "RunPodSandbox":
    case "StopPodSandbox":
    case "RemovePodSandbox":
    case "CreateContainer":
      return { method, pod: podOf(request.pod) };
    case "StateChange": {
      const event = EVENTS[request.event] ?? "Ignored";
      return event === "Ignored" ? { method: event } : { method: event, pod: podOf(request.pod) };
    }
    default:
      return { method: "Ignored" };
  }
}

/** The answer to a call that succeeded. @param answer by the names of proto/nri/nri.proto */
export function encodeAnswer(method: string, answer: object): Buffer {
  return plugin[method]?.responseSerialize(answer) ?? Buffer.alloc(0);
}

/** The registration, as a ttrpc request. */
export function encodeRegistration(name: string, index: string): Buffer {
  const payload = runtime["RegisterPlugin"]?.requestSerialize({ plugin_name: name, plugin_idx: index });
  return encodeWith("requestSerialize", { service: RUNTIME_SERVICE, method: "RegisterPlugin", payload });
}

/** A ttrpc request. */
export interface TtrpcRequest {
  readonly service: string;
  readonly method: string;
  readonly payload: Buffer;
  /** Until the caller gives up; 0 for never. */
  readonly timeout_nano: number;
}

/** A ttrpc response. */
export interface TtrpcResponse {
  /** Missing for success. */
  readonly status?: { readonly code: number; readonly message: string } | null;
  readonly payload?: Buffer;
}

/** @throws for bytes that are no such message */
export function decodeRequest(data: Buffer): TtrpcRequest {
  return ttrpc?.requestDeserialize(data);
}

/** @throws for bytes that are no such message */
export function decodeResponse(data: Buffer): TtrpcResponse {
  return ttrpc?.responseDeserialize(data);
}

export function encodeResponse(response: TtrpcResponse): Buffer {
  return encodeWith("responseSerialize", response);
}

function encodeWith(direction: "requestSerialize" | "responseSerialize", message: object): Buffer {
  if (ttrpc === undefined) throw new TypeError("proto/nri/ttrpc.proto has no Call");
  return ttrpc[direction](message);
}

function podOf(pod: WirePod | null): PodSandbox {
  if (pod === null) throw new RangeError("the pod is missing");
  const { id, name, namespace, uid, linux } = pod;
  const netns = linux?.namespaces.find(({ type }) => type === "network")?.path || undefined;
  return present({ id, name, namespace, uid, netns });
}

/** An empty message takes two bytes and a hundred times that in our memory: what is decoded is counted before. */
function limitFields(payload: Buffer, podField: number | undefined): void {
  const reader = new FieldReader();
  const read = (bytes: Buffer, path: readonly (number | undefined)[]): void => {
    const [wanted, ...deeper] = path;
    reader.read(bytes, (number, content) => {
      if (number === wanted) read(content, deeper);
    });
  };
  // The pod, its part for Linux, and the namespaces there.
  read(payload, [podField, 8, 5]);
}
