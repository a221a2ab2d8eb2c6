import { createHash } from "node:crypto";

/**
 * The switch port of one attachment: `vhu` and 12 hex digits. It is a function of container and interface, so
 * that a repeated ADD and a DEL without any record find it, and has 15 characters because OpenFlow port
 * names are cut there.
 */
export function portName(containerId: string, interfaceName: string): string {
  const digest = createHash("sha256").update(`${containerId}\0${interfaceName}`).digest("hex");
  return `vhu${digest.slice(0, 12)}`;
}
