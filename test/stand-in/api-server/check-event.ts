import type { Json } from "./object-store.ts";

const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const QUALIFIED_NAME = /^([a-z0-9]([-a-z0-9.]*[a-z0-9])?\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
/** Go's layout of a `MicroTime`, which takes six digits and no other number. */
const MICRO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$/;
const KEYS = [
  ...["apiVersion", "kind", "metadata", "eventTime", "series", "reportingController", "reportingInstance"],
  ...["action", "reason", "regarding", "related", "note", "type"],
];
const REFERENCE_KEYS = ["apiVersion", "kind", "name", "namespace", "uid", "resourceVersion", "fieldPath"];

/**
 * What is wrong with an event that is to be made by events.k8s.io/v1, by the API server's own rules
 * (`ValidateEventCreate`), and with fields that it would pass over in silence. Kubernetes 1.36.3's own code came to the
 * same verdict on the cases of this file's test, but for the namespace of a pod, where it is looser.
 */
export function wrongWithEvent(event: Json, namespace: string): readonly string[] {
  const wrong: string[] = [];
  const expect = (isSo: boolean, what: string) => {
    if (!isSo) wrong.push(what);
  };
  const text = (key: string) => (typeof event[key] === "string" ? (event[key] as string) : "");
  const metadata = (event["metadata"] ?? {}) as Json;
  const regarding = (event["regarding"] ?? {}) as Json;
  for (const key of Object.keys(event)) expect(KEYS.includes(key), `unknown field ${key}`);
  for (const key of Object.keys(regarding))
    expect(REFERENCE_KEYS.includes(key), `unknown field regarding.${key}`);
  expect(event["apiVersion"] === "events.k8s.io/v1", "apiVersion");
  expect(event["kind"] === "Event", "kind");
  expect(metadata["namespace"] === namespace, "metadata.namespace is not the path's");
  const name = String(metadata["name"] ?? "");
  expect(DNS_SUBDOMAIN.test(name) && name.length <= 253, "metadata.name must be a DNS subdomain");
  expect(MICRO_TIME.test(text("eventTime")), "eventTime");
  expect(["Normal", "Warning"].includes(text("type")), "type");
  expect(QUALIFIED_NAME.test(text("reportingController")), "reportingController must be a qualified name");
  for (const key of ["reportingInstance", "action", "reason"]) {
    const bytes = Buffer.byteLength(text(key));
    expect(bytes > 0 && bytes <= 128, `${key} must have 1 to 128 bytes`);
  }
  expect(Buffer.byteLength(text("note")) <= 1024, "note can have at most 1024 bytes");
  expect(typeof regarding["kind"] === "string" && typeof regarding["name"] === "string", "regarding");
  // Looser in the API server for what has a namespace; kubectl would not find an event that is elsewhere.
  const place = regarding["namespace"] ?? "default";
  expect(place === namespace, "regarding.namespace does not match metadata.namespace");
  return [...wrong, ...wrongWithSeries(event["series"] as Json | undefined)];
}

/** What is wrong with a series, which may be left out (`validateV1EventSeries`). */
export function wrongWithSeries(series: Json | undefined): readonly string[] {
  if (series === undefined) return [];
  const { count, lastObservedTime, ...more } = series;
  return [
    ...(typeof count === "number" && Number.isInteger(count) && count >= 2
      ? []
      : ["series.count should be at least 2"]),
    ...(typeof lastObservedTime === "string" && MICRO_TIME.test(lastObservedTime)
      ? []
      : ["series.lastObservedTime"]),
    ...Object.keys(more).map((key) => `unknown field series.${key}`),
  ];
}
