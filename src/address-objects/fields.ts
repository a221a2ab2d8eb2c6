import * as z from "zod";
import {
  formatPrefix,
  isInPrefix,
  type Prefix,
  parseAddress,
  parsePrefix,
  prefixOf,
} from "../addresses/address.ts";
import { isRangeInPrefix, parseRange } from "../addresses/subnet.ts";
import { Failure } from "../failure/failure.ts";
import { IPAM_API_VERSION } from "./resources.ts";

/** What every object has that the API server returned. */
export interface ObjectIdentity {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Whether the object was deleted, and a finalizer still holds it. */
  readonly isDeleting: boolean;
  /** By the API server's clock: for people, not for decisions. */
  readonly createdAt: string | undefined;
}

export const addressField = z.string().transform((text, context) => {
  const address = parseAddress(text);
  if (address !== undefined) return address;
  context.addIssue(`${JSON.stringify(text)} is not an IP address without a prefix length or zone`);
  return z.NEVER;
});

export const prefixField = z.string().transform((text, context) => {
  const prefix = parsePrefix(text);
  if (prefix !== undefined) return prefix;
  context.addIssue(`${JSON.stringify(text)} is not a network in CIDR form${hintOf(text)}`);
  return z.NEVER;
});

/** `a-b`, a network, or a single address. */
const rangeField = z.string().transform((text, context) => {
  const range = parseRange(text);
  if (range !== undefined) return range;
  const forms = `write "first-last", a network or a single address`;
  context.addIssue(`${JSON.stringify(text)} is not a range of addresses: ${forms}${hintOf(text)}`);
  return z.NEVER;
});

/** A subnet of a pool, or of a network's configuration. */
export const subnetSchema = z
  .strictObject({
    cidr: prefixField,
    ranges: z.array(rangeField).default([]),
    exclude: z.array(rangeField).default([]),
    gateway: addressField.optional(),
  })
  .superRefine(({ cidr, ranges, exclude, gateway }, context) => {
    const out = (path: (string | number)[]) =>
      context.addIssue({ code: "custom", path, message: `is not inside ${formatPrefix(cidr)}` });
    for (const [key, list] of Object.entries({ ranges, exclude })) {
      for (const [index, range] of list.entries()) if (!isRangeInPrefix(cidr, range)) out([key, index]);
    }
    if (gateway !== undefined && !isInPrefix(cidr, gateway)) out(["gateway"]);
  });

/** Keys beside these two are of CNI 1.1.0. */
export const routeSchema = z.looseObject({ dst: prefixField, gw: addressField.optional() });

export const dnsSchema = z.strictObject({
  nameservers: z.array(z.string()).default([]),
  domain: z.string().optional(),
  search: z.array(z.string()).default([]),
  options: z.array(z.string()).default([]),
});

const identitySchema = z.looseObject({
  metadata: z.looseObject({
    name: z.string().min(1),
    uid: z.string().min(1),
    resourceVersion: z.string().min(1),
    deletionTimestamp: z.string().optional(),
    creationTimestamp: z.string().optional(),
  }),
});

/**
 * Parses an object of the API server. Keys that are not known are of a later release.
 * @throws Failure `invalid-address-object`
 */
export function parseObject<Schema extends z.ZodType>(
  kind: string,
  schema: Schema,
  object: unknown,
): ObjectIdentity & { readonly content: z.infer<Schema> } {
  const identity = identitySchema.safeParse(object);
  const name = identity.success ? identity.data.metadata.name : "without a name";
  const content = schema.safeParse(object);
  const error = identity.error ?? content.error;
  if (error !== undefined || !identity.success || !content.success) throw invalidObject(kind, name, error);
  const { uid, resourceVersion, deletionTimestamp, creationTimestamp } = identity.data.metadata;
  const isDeleting = deletionTimestamp !== undefined;
  return { name, uid, resourceVersion, isDeleting, createdAt: creationTimestamp, content: content.data };
}

/** The failure of an object that cannot be used. */
export function invalidObject(kind: string, name: string, problem: z.ZodError | string | undefined): Failure {
  const what =
    problem instanceof z.ZodError
      ? problem.issues.map(({ path, message }) => `${path.join(".") || "it"}: ${message}`).join("; ")
      : (problem ?? "it cannot be read");
  const fix = `correct it with kubectl edit ${kind.toLowerCase()} ${name}`;
  return new Failure({ code: "invalid-address-object", what, where: `${kind} ${name}`, fix });
}

/** Metadata and type of an object that is to be created. */
export function headOf(kind: string, name: string, labels: Readonly<Record<string, string>> = {}) {
  return { apiVersion: IPAM_API_VERSION, kind, metadata: { name, labels } };
}

function hintOf(text: string): string {
  const [base = "", length = ""] = text.split("/");
  const address = parseAddress(base);
  if (address === undefined || !/^\d{1,3}$/.test(length)) return "";
  const network: Prefix | undefined = parsePrefix(formatPrefix(prefixOf(address, Number(length))));
  return network === undefined ? "" : `, the network is ${formatPrefix(network)}`;
}
