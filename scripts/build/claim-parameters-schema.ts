import * as z from "zod";
import { vhostUserPortSchema } from "../../src/dra/port-config.ts";

/** The text of docs/vhost-user-port.schema.json: the opaque parameters of claims and DeviceClasses. */
export function portParametersSchema(): string {
  return `${JSON.stringify(z.toJSONSchema(vhostUserPortSchema, { io: "input" }), null, 2)}\n`;
}
