import type { KubeApi, Resource } from "./client.ts";

/** Something that a token may be allowed to do, in all namespaces. */
export interface Right extends Pick<Resource, "group" | "plural" | "subresource"> {
  readonly verb: string;
  /** Of one object; default of all. */
  readonly name?: string;
}

const REVIEWS = { group: "authorization.k8s.io", version: "v1", plural: "selfsubjectaccessreviews" };

/**
 * Whether our token may do something (authorization.k8s.io/v1, SelfSubjectAccessReview), which every token may ask.
 * @throws ApiFailure where the API server does not say
 */
export async function mayDo(
  { verb, group, plural: resource, subresource, name }: Right,
  api: Pick<KubeApi, "ask">,
  signal: AbortSignal,
): Promise<boolean> {
  const body = {
    ...{ apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview" },
    spec: { resourceAttributes: { verb, group, resource, subresource, name } },
  };
  const { status } = (await api.ask(REVIEWS, body, signal)) as {
    readonly status?: { readonly allowed?: unknown };
  };
  return status?.allowed === true;
}
