/**
 * Whether kubelet takes this as an extended resource: a DNS prefix, a slash, a qualified name, and none of the
 * reserved prefixes (Kubernetes API, extended resources).
 */
export function isResourceName(text: string): boolean {
  if (text.includes("kubernetes.io/") || text.startsWith("requests.")) return false;
  const [prefix, name, ...rest] = text.split("/");
  if (prefix === undefined || name === undefined || rest.length > 0) return false;
  const label = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
  return (
    prefix.length + "requests.".length <= 253 &&
    prefix.split(".").every((part) => label.test(part)) &&
    name.length <= 63 &&
    /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/.test(name)
  );
}
