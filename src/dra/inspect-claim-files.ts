import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import * as z from "zod";
import type { DaemonConfig } from "../config/schema.ts";
import { describeThrown, systemCode } from "../failure/failure.ts";
import type { ClaimAllocation } from "../records/allocation-record.ts";
import type { PortRecord } from "../records/port-record.ts";
import { cdiDeviceId } from "./cdi.ts";
import { claimDirectories, filesOfResult } from "./claim-files.ts";

const cdiSchema = z.looseObject({
  kind: z.string(),
  devices: z.array(
    z.looseObject({
      name: z.string(),
      containerEdits: z.looseObject({ mounts: z.array(z.looseObject({ containerPath: z.string() })) }),
    }),
  ),
});

const metadataSchema = z.looseObject({
  requests: z.array(
    z.looseObject({
      devices: z.array(
        z.looseObject({
          attributes: z.looseObject({ "vhost-user-path": z.looseObject({ string: z.string() }) }),
        }),
      ),
    }),
  ),
});

/** One file, and what is wrong with it. */
export interface InspectedFile {
  readonly file: string;
  readonly state: "good" | "missing" | "wrong";
  readonly reason?: string;
}

/** Whether the files by which a claim's containers get this port are there: for the runtime, and for programs in them. */
export async function inspectClaimFiles(
  allocation: ClaimAllocation,
  { podSocketPath: path }: PortRecord,
  config: DaemonConfig,
): Promise<{ readonly device: InspectedFile; readonly attachment: InspectedFile }> {
  const { cdi, metadata } = filesOfResult(allocation, claimDirectories(config));
  const id = cdiDeviceId(allocation);
  const device = await inspect(cdi, `it has no device ${id} with the directory of ${path}`, (found) => {
    const { kind, devices } = cdiSchema.parse(found);
    const own = devices.find(({ name }) => `${kind}=${name}` === id);
    return own?.containerEdits.mounts.some(({ containerPath }) => containerPath === dirname(path)) === true;
  });
  const attachment = await inspect(metadata, `it does not name the socket ${path}`, (found) =>
    metadataSchema
      .parse(found)
      .requests.some(({ devices }) =>
        devices.some(({ attributes }) => attributes["vhost-user-path"].string === path),
      ),
  );
  return { device, attachment };
}

async function inspect(
  file: string,
  reason: string,
  isGood: (found: unknown) => boolean,
): Promise<InspectedFile> {
  try {
    const found: unknown = JSON.parse(await readFile(file, "utf8"));
    return isGood(found) ? { file, state: "good" } : { file, state: "wrong", reason };
  } catch (error) {
    if (systemCode(error) === "ENOENT") return { file, state: "missing" };
    return { file, state: "wrong", reason: describeThrown(error) };
  }
}
