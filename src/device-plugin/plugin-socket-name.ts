import { createHash } from "node:crypto";

/**
 * The socket file of a resource's plugin: short, because the directory in front of it can be long, readable, and
 * unlike that of any other resource (`a-b/c` and `a/b-c` differ in the hash).
 */
export function pluginSocketName(resource: string): string {
  const readable = resource.replace(/^[^/]*\//, "").replace(/[^A-Za-z0-9-]/g, "-");
  const digest = createHash("sha256").update(resource).digest("hex").slice(0, 8);
  return `vhu-${readable.slice(0, 16)}-${digest}.sock`;
}
