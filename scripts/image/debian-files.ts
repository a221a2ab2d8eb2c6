import type { Processor } from "./processor.ts";

/** What the image takes out of a Debian package. */
export interface TakenPackage {
  readonly name: string;
  /** SPDX expression of what is taken; the package's whole copyright file is in the image. */
  readonly licence: string;
  /** Files by their whole path in the package; links are taken as links. */
  readonly files: (processor: Processor) => readonly RegExp[];
}

const GCC_RUNTIME = "GPL-3.0-or-later WITH GCC-exception-3.1";

const libraries =
  (...names: readonly string[]) =>
  ({ triplet }: Processor) =>
    names.map((name) => new RegExp(`^(usr/)?lib/${triplet}/${name}\\.so\\.[\\d.]+$`));

const files =
  (...paths: readonly string[]) =>
  () =>
    paths.map((path) => new RegExp(`^${path}$`));

/**
 * Everything that is not ours or Node's: what Node is linked to, and what the programs run. `env` is in the first line
 * of each, `chcon` labels directories, `stat` reads labels for vhostuserctl doctor, `mount` mounts the root. No shell, no
 * package manager.
 */
export const TAKEN_PACKAGES: readonly TakenPackage[] = [
  {
    name: "base-files",
    licence: "GPL-2.0-or-later",
    // Scanners know the distribution by it; the licences are those that the copyright files point to.
    files: files("(etc|usr/lib)/os-release", "etc/debian_version", "usr/share/common-licenses/[\\w.-]+"),
  },
  {
    name: "libc6",
    licence: "LGPL-2.1-or-later",
    files: (processor) => [
      ...libraries("libc", "libm", "libdl", "libpthread", "ld-linux[\\w-]*")(processor),
      /^lib(64)?\/ld-linux[\w-]*\.so\.\d$/,
    ],
  },
  // Others' copyright files are links into it.
  { name: "gcc-12-base", licence: GCC_RUNTIME, files: files() },
  { name: "libgcc-s1", licence: GCC_RUNTIME, files: libraries("libgcc_s") },
  { name: "libstdc++6", licence: GCC_RUNTIME, files: libraries("libstdc\\+\\+") },
  { name: "libselinux1", licence: "libselinux-1.0", files: libraries("libselinux") },
  { name: "libpcre2-8-0", licence: "BSD-3-Clause", files: libraries("libpcre2-8") },
  { name: "libblkid1", licence: "LGPL-2.1-or-later", files: libraries("libblkid") },
  { name: "libmount1", licence: "LGPL-2.1-or-later", files: libraries("libmount") },
  { name: "mount", licence: "GPL-2.0-or-later", files: files("(usr/)?bin/mount") },
  { name: "coreutils", licence: "GPL-3.0-or-later", files: files("usr/bin/(chcon|env|stat)") },
];
