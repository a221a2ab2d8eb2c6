import { readFile } from "node:fs/promises";
import { runProgram } from "../../test/machine/run-program.ts";
import type { Processor } from "./processor.ts";

/** The C library that is linked into the CNI executable. */
export interface StaticLibrary {
  readonly name: "musl" | "glibc";
  /** Debian's package with its static files, on the machine that builds. */
  readonly packageName: string;
  readonly version: string;
  readonly licence: string;
  readonly copyright: string;
}

/** The library that scripts/build/compile-shim.ts links, as installed here. */
export async function staticLibrary(processor: Processor): Promise<StaticLibrary> {
  const isMusl = processor.node === "x64" && process.arch === "x64";
  const packageName = isMusl ? "musl-dev" : `libc6-dev-${processor.oci}-cross`;
  // biome-ignore lint/suspicious/noTemplateCurlyInString: this is a field of dpkg-query
  const { stdout } = await runProgram("dpkg-query", ["--show", "--showformat=${Version}", packageName]);
  return {
    name: isMusl ? "musl" : "glibc",
    packageName,
    version: stdout.trim(),
    licence: isMusl ? "MIT" : "LGPL-2.1-or-later",
    copyright: await readFile(`/usr/share/doc/${packageName}/copyright`, "utf8"),
  };
}
