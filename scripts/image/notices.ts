import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../src/failure/failure.ts";
import type { LockedNpmPackage } from "./npm-lock.ts";
import type { StaticLibrary } from "./static-library.ts";

const RULE = "=".repeat(80);

/** https://spdx.org/licenses/MIT.html, without its line for the copyright. */
const MIT = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`;

/** What the notices are about. */
export interface NoticeInput {
  readonly npm: readonly LockedNpmPackage[];
  readonly library: StaticLibrary;
}

/**
 * The texts of all licences under which others' code is in our programs, for the image.
 * @throws Failure part-missing where a package has no licence text
 */
export async function thirdPartyNotices({ npm, library }: NoticeInput): Promise<string> {
  const head = [
    "kube-vhostuser is licensed under the Apache License 2.0 (LICENSE). This image also has the code of others:",
    "",
    "- Debian's packages: /usr/share/doc/<package>/copyright and /usr/share/common-licenses.",
    "  Their sources are in Debian's archive, the versions in /var/lib/dpkg/status.d and sbom.spdx.json.",
    "- Node.js: /usr/share/doc/node/LICENSE.",
    `- ${library.name} in the CNI executable, and npm packages in the programs: below.`,
    "",
  ];
  const texts = await Promise.all(npm.map(npmNotice));
  return [...head, libraryNotice(library), ...texts].join("\n");
}

function libraryNotice({ name, packageName, version, licence, copyright }: StaticLibrary): string {
  const relink = [
    "The executables in /opt/kube-vhostuser/dist/cni are linked statically to the GNU C library, which is free software",
    "under the GNU Lesser General Public License, version 2.1 or later (/usr/share/common-licenses/LGPL-2.1). The whole",
    "source of the executables, and what links them, is published with this release: src/cni/shim and",
    "scripts/build/compile-shim.ts. To use it with a changed C library, install that in place of Debian's package",
    `${packageName} and run: npm run build. The library's source is Debian's source package cross-toolchain-base,`,
    "which is made from glibc, of the version above.",
    "",
  ];
  return [
    RULE,
    `${name} (Debian's ${packageName} ${version}), ${licence}`,
    RULE,
    "",
    ...(name === "glibc" ? relink : []),
    copyright,
  ].join("\n");
}

async function npmNotice({ directory, name, version, license }: LockedNpmPackage): Promise<string> {
  const files = (await readdir(directory))
    .filter((file) => /^(licen[cs]e|copying|notice)/i.test(file))
    .sort();
  const texts = await Promise.all(files.map((file) => readFile(join(directory, file), "utf8")));
  if (texts.length === 0) texts.push(await statedLicence(directory));
  return [RULE, `${name} ${version}, ${license}`, RULE, "", ...texts.map((text) => `${text.trim()}\n`)].join(
    "\n",
  );
}

/** For a package that has no text of its licence and says in its package.json which it is. */
async function statedLicence(directory: string): Promise<string> {
  const stated = JSON.parse(await readFile(join(directory, "package.json"), "utf8")) as {
    license?: string;
    author?: string | { name: string };
    repository?: string | { url: string };
  };
  const author = typeof stated.author === "string" ? stated.author : stated.author?.name;
  if (stated.license !== "MIT" || author === undefined) {
    throw new Failure({
      code: "part-missing",
      what: "the npm package has no licence text and does not say that it is under MIT, or who its author is",
      where: directory,
    });
  }
  return `The package has no licence text; its package.json states MIT and the author ${author}.\n\n${MIT}`;
}
