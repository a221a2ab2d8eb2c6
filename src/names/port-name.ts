import { createHash } from "node:crypto";

/**
 * The switch port of one interface of an allocation: `vhu` and 12 hex digits, 15 characters because OpenFlow cuts port
 * names there. A new sandbox of the same pod has the same port.
 */
export function portName(allocationId: string, interfaceName: string): string {
  const digest = createHash("sha256").update(`${allocationId}\0${interfaceName}`).digest("hex");
  return `vhu${digest.slice(0, 12)}`;
}
