import { isIP } from "node:net";
import * as z from "zod";
import { type CniVersion, SUPPORTED_CNI_VERSIONS } from "../names/cni-version.ts";
import { present } from "../names/present.ts";
import type { Addressing } from "../records/port-record.ts";
import { IpamError } from "./ipam.ts";

const ip = z.string().refine((text) => isIP(text) !== 0, { error: "must be an IP address" });

/** An address, or a network, with its prefix length. */
const cidr = z.string().refine(isCidr, { error: "must be an IP address with a prefix length" });

/** Go plugins print `null` for lists that are not there. */
function listOf<Item extends z.ZodType>(item: Item) {
  return z
    .array(item)
    .nullish()
    .transform((list) => list ?? []);
}

export const dnsSchema = z.looseObject({
  nameservers: listOf(z.string()),
  domain: z.string().optional(),
  search: listOf(z.string()),
  options: listOf(z.string()),
});

/** A result as IPAM plugins print it (CNI spec 1.1.0, section 5, "Delegated plugins (IPAM)"). */
const resultSchema = z.looseObject({
  cniVersion: z.enum(SUPPORTED_CNI_VERSIONS).optional(),
  ips: z
    .array(z.looseObject({ version: z.enum(["4", "6"]).optional(), address: cidr, gateway: ip.nullish() }))
    .min(1, "must hold an address"),
  routes: listOf(z.looseObject({ dst: cidr, gw: ip.nullish() })),
  dns: dnsSchema.nullish(),
});

/**
 * Parses what an IPAM plugin's ADD printed, in whichever of our CNI versions.
 * @throws Failure `ipam-failed` when it holds no address, or an invalid one
 */
export function parseAddressing(output: unknown, type: string, cniVersion: CniVersion): Addressing {
  const parsed = resultSchema.safeParse(output ?? {});
  if (!parsed.success) {
    const problems = parsed.error.issues.map(({ path, message }) => `${path.join(".") || "it"}: ${message}`);
    throw badResult(type, cniVersion, problems);
  }
  const { ips, routes, dns } = parsed.data;
  const wrong = ips.flatMap(({ version, address }, index) =>
    version === undefined || version === addressFamily(address)
      ? []
      : [`ips.${index}: ${address} is not of version ${version}`],
  );
  if (wrong.length > 0) throw badResult(type, cniVersion, wrong);
  return {
    ips: ips.map(({ address, gateway }) => present({ address, gateway: gateway || undefined })),
    routes: routes.map(({ gw, ...route }) => present({ ...route, gw: gw || undefined })),
    dns: present({
      nameservers: dns?.nameservers ?? [],
      domain: dns?.domain || undefined,
      search: dns?.search ?? [],
      options: dns?.options ?? [],
    }),
  };
}

/** `version` of an entry in `ips`, as results before CNI 1.0 have it. */
export function addressFamily(address: string): "4" | "6" {
  return isIP(address.split("/")[0] ?? "") === 6 ? "6" : "4";
}

function isCidr(text: string): boolean {
  const [address = "", prefix = "", ...rest] = text.split("/");
  const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1;
  return rest.length === 0 && /^\d{1,3}$/.test(prefix) && Number(prefix) <= bits;
}

function badResult(type: string, cniVersion: CniVersion, problems: readonly string[]): IpamError {
  return new IpamError({
    code: "ipam-failed",
    what: `IPAM plugin ${JSON.stringify(type)} returned a result that is invalid in CNI ${cniVersion}: ${problems.join("; ")}`,
    where: "CNI ADD",
    fix: "use a release of the plugin that speaks the network's cniVersion",
  });
}
