import { Failure } from "../failure/failure.ts";

/** Versions whose requests and results we speak, oldest first. */
export const SUPPORTED_CNI_VERSIONS = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] as const;

export type CniVersion = (typeof SUPPORTED_CNI_VERSIONS)[number];

/** @throws Failure `unsupported-cni-version` */
export function checkCniVersion(text: unknown): CniVersion {
  const found = SUPPORTED_CNI_VERSIONS.find((version) => version === text);
  if (found === undefined) {
    throw new Failure({
      code: "unsupported-cni-version",
      what: `cniVersion ${JSON.stringify(text)} is not supported`,
      where: "network configuration",
      fix: `use one of ${SUPPORTED_CNI_VERSIONS.join(", ")}`,
    });
  }
  return found;
}

/** Whether `version` is `least` or later. */
export function isAtLeast(version: CniVersion, least: CniVersion): boolean {
  return SUPPORTED_CNI_VERSIONS.indexOf(version) >= SUPPORTED_CNI_VERSIONS.indexOf(least);
}

/** @throws Failure `unsupported-cni-version` where a verb is of a later version than the network's configuration */
export function requireVersion(
  { cniVersion }: { readonly cniVersion: CniVersion },
  least: CniVersion,
  verb: string,
): void {
  if (isAtLeast(cniVersion, least)) return;
  throw new Failure({
    code: "unsupported-cni-version",
    what: `${verb} needs cniVersion ${least}, the configuration says ${cniVersion}`,
    where: "network configuration",
  });
}
