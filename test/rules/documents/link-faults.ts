import { existsSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { type Document, TOP } from "./document.ts";

/** Where a document may send its reader. Nobody looks whether the page is there: the tests use no network. */
const HOSTS: ReadonlySet<string> = new Set([
  "docs.dpdk.org",
  "docs.openvswitch.org",
  "fd.io",
  "github.com",
  "helm.sh",
  "keepachangelog.com",
  "kubernetes.io",
  "kubevirt.io",
  "libvirt.org",
  "prometheus.io",
  "s3-docs.fd.io",
  "semver.org",
  "www.cni.dev",
  "www.kernel.org",
  "www.qemu.org",
]);

/** Links of a document that lead nowhere. @param all the project's documents, for anchors in them */
export function linkFaults(document: Document, all: readonly Document[]): string[] {
  return document.targets.flatMap((target) => {
    const fault = /^[a-z][a-z\d+.-]*:/i.test(target) ? urlFault(target) : pathFault(target, document, all);
    return fault === undefined ? [] : [`${target}: ${fault}`];
  });
}

function urlFault(target: string): string | undefined {
  if (!URL.canParse(target)) return "not well-formed";
  const { protocol, hostname, username, search } = new URL(target);
  if (protocol !== "https:") return "not https";
  if (username !== "" || search !== "") return "with a user or a query";
  return HOSTS.has(hostname) ? undefined : `host ${hostname} is not in ${HOSTS_FILE}`;
}

const HOSTS_FILE = "test/rules/documents/link-faults.ts";

function pathFault(target: string, from: Document, all: readonly Document[]): string | undefined {
  const [path = "", anchor] = target.split("#");
  if (path.startsWith("/")) return "not relative";
  const file = path === "" ? from.file : normalize(join(dirname(from.file), decodeURIComponent(path)));
  if (file.startsWith("..")) return "outside of the project";
  // The document itself may be one that is not on disk.
  const there = file === from.file ? from : all.find((one) => one.file === file);
  if (there === undefined && !existsSync(join(TOP, file))) return "there is no such file";
  if (anchor === undefined) return undefined;
  if (there === undefined) return "an anchor in a file that is no document";
  return there.anchors.has(anchor) ? undefined : `there is no heading for it in ${file}`;
}

/** Documents that no chain of links leads to. */
export function unreachable(all: readonly Document[], from: string): string[] {
  const seen = new Set<string>();
  const visit = (file: string): void => {
    const document = all.find((one) => one.file === file);
    if (document === undefined || seen.has(file)) return;
    seen.add(file);
    for (const target of document.targets) {
      if (!target.includes(":")) visit(normalize(join(dirname(file), target.split("#")[0] ?? "")));
    }
  };
  visit(from);
  return all.map(({ file }) => file).filter((file) => !seen.has(file));
}
