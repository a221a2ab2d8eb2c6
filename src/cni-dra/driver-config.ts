import { readFileSync } from "node:fs";
import { parse } from "yaml";
import * as z from "zod";
import { unknownKeys } from "../config/unknown-keys.ts";
import { describeThrown, Failure } from "../failure/failure.ts";
import { isPluginName } from "../ipam/ipam.ts";
import { isInterfaceName } from "../names/interface-name.ts";

/** The driver's configuration file. */
export const driverConfigSchema = z.strictObject({
  /** Plugin types that claims may use, IPAM plugins too, each with its keys; a DeviceClass may use all. */
  allowedPlugins: z
    .record(z.string().refine(isPluginName, "must be the file name of a plugin"), z.array(z.string()))
    .default({}),
  /** Host interfaces to offer; default those with hardware behind them. */
  interfaces: z
    .array(
      z.strictObject({
        name: z.string().refine(isInterfaceName, "must be the name of a network interface"),
        /** Of how many claims at a time the interface can be; default without limit. */
        maxVirtualDevices: z.number().int().positive().optional(),
        /** Bits a second that claims share, if the scheduler is to count them. */
        bandwidth: z.number().int().positive().optional(),
      }),
    )
    .optional(),
});

/** See {@link driverConfigSchema}. */
export type DriverConfig = z.infer<typeof driverConfigSchema>;

/** Reads the file. @throws Failure `invalid-config` */
export function readDriverConfig(file: string): DriverConfig {
  const refuse = (what: string, cause?: unknown) =>
    new Failure({
      code: "invalid-config",
      what,
      where: file,
      fix: "correct the file; docs/cni-dra.md has its keys",
      cause,
    });
  let object: unknown;
  try {
    object = parse(readFileSync(file, "utf8")) ?? {};
  } catch (error) {
    throw refuse(`the configuration cannot be read: ${describeThrown(error)}`, error);
  }
  const { data, error } = driverConfigSchema.safeParse(object);
  if (data !== undefined) return data;
  const [unknown] = unknownKeys(driverConfigSchema, error?.issues ?? []);
  if (unknown !== undefined) {
    const meant = unknown.meant === undefined ? "" : `, perhaps ${unknown.meant} is meant`;
    throw refuse(`unknown key ${unknown.path.join(".")}${meant}`);
  }
  throw refuse(error === undefined ? "it is wrong" : z.prettifyError(error).replaceAll("\n", " "));
}
