import * as z from "zod";
import { Failure } from "../failure/failure.ts";
import { present } from "../names/present.ts";

/** One network that a pod asks for (multi-network spec 1.3, section 4.1.2), as far as IPAM reads it. */
export interface NetworkSelection {
  /** Of the NetworkAttachmentDefinition. */
  readonly namespace: string;
  readonly name: string;
  /** Undefined: Multus names it net1, net2 and so on. */
  readonly interface?: string;
  /** Name of an IPAMClaim in the pod's namespace. */
  readonly claim?: string;
  /** Addresses that the pod asks for. */
  readonly ips: readonly string[];
}

/** As Multus has it: a text with one of these characters is JSON. */
const IS_JSON = /[[{"]/;
const COMMA_ELEMENT = /^(?:([a-z0-9][a-z0-9.-]*)\/)?([a-z0-9][a-z0-9.-]*)(?:@([^\s/@]+))?$/;

const elementSchema = z.looseObject({
  name: z.string().min(1),
  namespace: z.string().nullish(),
  interface: z.string().nullish(),
  ips: z.array(z.string()).nullish(),
  "ipam-claim-reference": z
    .string()
    .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/, "must be the name of an IPAMClaim")
    .max(253)
    .nullish(),
});

/**
 * Parses a pod's annotation `k8s.v1.cni.cncf.io/networks`: JSON, or `namespace/name@interface` separated by commas.
 * @param namespace the pod's, which elements have that name none
 * @throws Failure `ipam-claim-refused`, also for an element with both a claim and addresses
 */
export function parseNetworkSelection(
  text: string,
  namespace: string,
  pod: string,
): readonly NetworkSelection[] {
  const where = `annotation k8s.v1.cni.cncf.io/networks of pod ${namespace}/${pod}`;
  if (text.trim() === "") return [];
  return IS_JSON.test(text) ? ofJson(text, namespace, where) : ofList(text, namespace, where);
}

function ofJson(text: string, own: string, where: string): readonly NetworkSelection[] {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw refused("it is not JSON", where);
  }
  const { data, error } = z.array(elementSchema).safeParse(json);
  if (data === undefined)
    throw refused(error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; "), where);
  return data.map(({ name, namespace, interface: wanted, ips, "ipam-claim-reference": claim }) => {
    if (claim && ips && ips.length > 0)
      throw refused(`network ${name} has both ips and ipam-claim-reference`, where);
    const given = { interface: wanted || undefined, claim: claim ?? undefined };
    return { namespace: namespace || own, name, ips: ips ?? [], ...present(given) };
  });
}

function ofList(text: string, own: string, where: string): readonly NetworkSelection[] {
  return text.split(",").map((part) => {
    const found = COMMA_ELEMENT.exec(part.trim());
    const [, namespace = own, name, wanted] = found ?? [];
    if (name === undefined) throw refused(`${JSON.stringify(part)} is not namespace/name@interface`, where);
    return { namespace, name, ips: [], ...present({ interface: wanted }) };
  });
}

function refused(what: string, where: string): Failure {
  return new Failure({
    code: "ipam-claim-refused",
    what,
    where,
    fix: "correct what creates the pod, and delete the pod",
  });
}
