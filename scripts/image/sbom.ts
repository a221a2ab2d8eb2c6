import { createHash } from "node:crypto";
import { TAKEN_PACKAGES } from "./debian-files.ts";
import type { FetchedPackage } from "./fetch-packages.ts";
import type { NodeBinary } from "./node-tree.ts";
import type { LockedNpmPackage } from "./npm-lock.ts";
import type { Processor } from "./processor.ts";
import type { StaticLibrary } from "./static-library.ts";

const PROJECT = "https://github.com/kube-vhostuser/kube-vhostuser";

/** Everything that is in one image. */
export interface SbomInput {
  readonly version: string;
  /** Commit, or `unknown`. */
  readonly revision: string;
  /** Seconds since 1970, of the commit: the same sources give the same text. */
  readonly created: number;
  readonly processor: Processor;
  readonly debian: readonly FetchedPackage[];
  readonly node: NodeBinary;
  readonly npm: readonly LockedNpmPackage[];
  readonly library: StaticLibrary;
}

/** A package of an SPDX document, https://spdx.github.io/spdx-spec/v2.3/package-information/ */
export interface SpdxPackage {
  readonly SPDXID: string;
  readonly name: string;
  readonly versionInfo: string;
  readonly licenseDeclared: string;
  readonly licenseConcluded: string;
  readonly downloadLocation: string;
  readonly filesAnalyzed: false;
  readonly copyrightText: "NOASSERTION";
  readonly checksums?: readonly { readonly algorithm: string; readonly checksumValue: string }[];
  readonly externalRefs: readonly {
    readonly referenceCategory: "PACKAGE-MANAGER";
    readonly referenceType: "purl";
    readonly referenceLocator: string;
  }[];
  readonly sourceInfo?: string;
  readonly primaryPackagePurpose?: string;
}

/** An SPDX 2.3 document, of the parts that ours has. */
export interface SpdxDocument {
  readonly spdxVersion: "SPDX-2.3";
  readonly dataLicense: "CC0-1.0";
  readonly SPDXID: "SPDXRef-DOCUMENT";
  readonly name: string;
  readonly documentNamespace: string;
  readonly creationInfo: { readonly created: string; readonly creators: readonly string[] };
  readonly packages: readonly SpdxPackage[];
  readonly relationships: readonly {
    readonly spdxElementId: string;
    readonly relationshipType: "DESCRIBES" | "CONTAINS" | "STATIC_LINK";
    readonly relatedSpdxElement: string;
  }[];
}

/** The bill of materials of one processor's image, as SPDX: our programs and what is in them, Node, Debian's files. */
export function sbom(input: SbomInput): SpdxDocument {
  const { version, revision, created, processor, library } = input;
  const programs = entry("programs", {
    ...{ name: "kube-vhostuser", version, licence: "Apache-2.0" },
    purl: `pkg:github/kube-vhostuser/kube-vhostuser@${revision === "unknown" ? version : revision}`,
    download: revision === "unknown" ? PROJECT : `git+${PROJECT}@${revision}`,
  });
  const linked = entry(`linked-${library.name}`, {
    ...{ name: library.packageName, version: library.version, licence: library.licence },
    purl: `pkg:deb/debian/${library.packageName}@${encodeURIComponent(library.version)}?distro=debian-12`,
    source: `${library.name}, linked statically into the CNI executable`,
  });
  const contained = [...input.debian.map(debianEntry), nodeEntry(input.node), programs];
  const bundled = input.npm.map(npmEntry);
  const licences = new Set([...contained, ...bundled, linked].map((each) => `(${each.licenseDeclared})`));
  const image = entry("image", {
    ...{ name: "kube-vhostuser-image", version },
    licence: [...licences].sort().join(" AND "),
    purl: `pkg:oci/kube-vhostuser?repository_url=ghcr.io/kube-vhostuser/kube-vhostuser&tag=${version}&arch=${processor.oci}`,
    purpose: "CONTAINER",
  });
  const packages = [image, ...contained, ...bundled, linked];
  const digest = createHash("sha256")
    .update(JSON.stringify([packages, created]))
    .digest("hex");
  const relate = (
    from: string,
    relationshipType: "DESCRIBES" | "CONTAINS" | "STATIC_LINK",
    to: SpdxPackage,
  ) => ({
    spdxElementId: from,
    relationshipType,
    relatedSpdxElement: to.SPDXID,
  });
  return {
    spdxVersion: "SPDX-2.3",
    dataLicense: "CC0-1.0",
    SPDXID: "SPDXRef-DOCUMENT",
    name: `kube-vhostuser-${version}-${processor.oci}`,
    documentNamespace: `${PROJECT}/sbom/${version}/${processor.oci}/${digest}`,
    creationInfo: {
      created: new Date(created * 1000).toISOString().replace(".000Z", "Z"),
      creators: ["Organization: kube-vhostuser", "Tool: kube-vhostuser-scripts-image"],
    },
    packages,
    relationships: [
      relate("SPDXRef-DOCUMENT", "DESCRIBES", image),
      ...contained.map((each) => relate(image.SPDXID, "CONTAINS", each)),
      ...bundled.map((each) => relate(programs.SPDXID, "CONTAINS", each)),
      relate(programs.SPDXID, "STATIC_LINK", linked),
    ],
  };
}

function debianEntry({
  name,
  version,
  architecture,
  source,
  sourceVersion,
  sha256,
}: FetchedPackage): SpdxPackage {
  const licence = TAKEN_PACKAGES.find((each) => each.name === name)?.licence ?? "NOASSERTION";
  return entry(`deb-${name}`, {
    ...{ name, version, licence, sha256 },
    purl: `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${architecture}&distro=debian-12`,
    source: `files of Debian's package, built from the source package ${source} ${sourceVersion}; all licences: /usr/share/doc/${name}/copyright`,
  });
}

function nodeEntry({ packageName, version, sha256 }: NodeBinary): SpdxPackage {
  return entry("node", {
    ...{ name: "node", version, licence: "MIT", sha256 },
    purl: `pkg:npm/${packageName}@${version}`,
    source: "bin/node of the npm package; the licences of what is built into it: /usr/share/doc/node/LICENSE",
  });
}

function npmEntry({ name, version, license, integrity }: LockedNpmPackage): SpdxPackage {
  const sha512 = Buffer.from(integrity.replace(/^sha512-/, ""), "base64").toString("hex");
  return entry(`npm-${name}`, {
    ...{ name, version, licence: license, sha512 },
    purl: `pkg:npm/${name.replace("@", "%40")}@${version}`,
  });
}

interface EntryParts {
  readonly name: string;
  readonly version: string;
  readonly licence: string;
  readonly purl: string;
  readonly download?: string;
  readonly sha256?: string;
  readonly sha512?: string;
  readonly source?: string;
  readonly purpose?: string;
}

function entry(id: string, parts: EntryParts): SpdxPackage {
  const { sha256, sha512 } = parts;
  const checksums = [
    ...(sha256 === undefined ? [] : [{ algorithm: "SHA256", checksumValue: sha256 }]),
    ...(sha512 === undefined ? [] : [{ algorithm: "SHA512", checksumValue: sha512 }]),
  ];
  return {
    SPDXID: `SPDXRef-${id.replace(/[^A-Za-z0-9.-]/g, "-")}`,
    name: parts.name,
    versionInfo: parts.version,
    licenseDeclared: parts.licence,
    licenseConcluded: parts.licence,
    downloadLocation: parts.download ?? "NOASSERTION",
    filesAnalyzed: false,
    copyrightText: "NOASSERTION",
    ...(checksums.length === 0 ? {} : { checksums }),
    externalRefs: [
      { referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: parts.purl },
    ],
    ...(parts.source === undefined ? {} : { sourceInfo: parts.source }),
    ...(parts.purpose === undefined ? {} : { primaryPackagePurpose: parts.purpose }),
  };
}
