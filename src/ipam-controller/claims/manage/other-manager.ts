import * as z from "zod";
import type { KubeApi, Resource } from "../../../kube-api/client.ts";

const WEBHOOKS: Resource = {
  ...{ group: "admissionregistration.k8s.io", version: "v1" },
  plural: "mutatingwebhookconfigurations",
};
/** Of kubevirt/ipam-extensions (config/webhook). */
const WEBHOOK_NAME = "ipam-claims.k8s.cni.cncf.io";

const schema = z.looseObject({
  metadata: z.looseObject({ name: z.string(), uid: z.string() }),
  webhooks: z.array(z.looseObject({ name: z.string() })).nullish(),
});

/** A configuration of a webhook that refers launcher pods to claims. */
export interface OtherManager {
  readonly name: string;
  readonly uid: string;
}

/**
 * Finds kubevirt/ipam-extensions, which makes claims of VMs too, by its webhook; undefined where it is not installed.
 * @throws ApiFailure: then it is not known
 */
export async function findOtherManager(
  api: Pick<KubeApi, "list">,
  signal: AbortSignal,
): Promise<OtherManager | undefined> {
  const { objects } = await api.list(WEBHOOKS, {}, signal);
  for (const object of objects) {
    const { data } = schema.safeParse(object);
    if (data?.webhooks?.some(({ name }) => name === WEBHOOK_NAME))
      return { name: data.metadata.name, uid: data.metadata.uid };
  }
  return undefined;
}
