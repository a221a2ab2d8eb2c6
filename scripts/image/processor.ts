import type { ShimProcessor } from "../build/compile-shim.ts";

/** One of the processors that images are made for, by its usual name. */
export interface Processor {
  /** Node's and npm's. */
  readonly node: ShimProcessor;
  /** The OCI image specification's, and Debian's. */
  readonly oci: "amd64" | "arm64";
  /** Debian's name of the directory of its libraries. */
  readonly triplet: string;
}

/** Every processor that images are made for. */
export const PROCESSORS: readonly Processor[] = [
  { node: "x64", oci: "amd64", triplet: "x86_64-linux-gnu" },
  { node: "arm64", oci: "arm64", triplet: "aarch64-linux-gnu" },
];
