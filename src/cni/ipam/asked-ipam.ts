import { z } from "zod";
import { isPluginName } from "./run-ipam.ts";

const askedSchema = z.looseObject({
  cniVersion: z.string(),
  name: z.string().min(1),
  type: z.string().optional(),
  ipam: z.looseObject({ type: z.string().refine(isPluginName) }),
});

/**
 * The IPAM plugin that a configuration names, read as leniently as DEL needs: whatever else is wrong with the
 * configuration, addresses are given back. Undefined where it names none, or is no configuration.
 */
export function askedIpam(stdin: Uint8Array): string | undefined {
  try {
    const asked = askedSchema.safeParse(JSON.parse(Buffer.from(stdin).toString("utf8"))).data;
    return asked === undefined || asked.ipam.type === asked.type ? undefined : asked.ipam.type;
  } catch {
    return undefined;
  }
}
