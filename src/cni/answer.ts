import type { FailureCode } from "../failure/catalogue.ts";
import { Failure, toFailure } from "../failure/failure.ts";
import { portRecordName } from "../records/port-record.ts";
import { add } from "./add.ts";
import { check } from "./check.ts";
import type { CniContext } from "./cni-context.ts";
import { isAtLeast, SUPPORTED_CNI_VERSIONS } from "./cni-version.ts";
import { del, delLater } from "./del.ts";
import { errorAnswer } from "./error-answer.ts";
import { gc } from "./gc.ts";
import { carryReleases } from "./ipam/carry-releases.ts";
import { type NetworkConfig, parseNetworkConfig } from "./network-config.ts";
import {
  type AttachmentTarget,
  parseAttachmentRequest,
  parseAttachmentTarget,
  type RawRequest,
} from "./request.ts";
import { status } from "./status.ts";

/** What the shim prints and exits with. */
export interface Answer {
  readonly exitCode: 0 | 1;
  /** One JSON object, or nothing. */
  readonly stdout: string;
  /** Code of the failure that it tells of; not sent to the shim. */
  readonly failure?: FailureCode;
}

/** Carries out one CNI verb (CNI spec 1.1.0, section 2); never throws. */
export async function answer(raw: RawRequest, context: CniContext, signal: AbortSignal): Promise<Answer> {
  const command = raw.env["CNI_COMMAND"] ?? "";
  try {
    const startedAt = context.clock.now();
    const result = await carryOut(command, raw, context, signal).finally(() =>
      CARRIERS.has(command) ? carryReleases(context, raw.delegate, startedAt) : undefined,
    );
    return { exitCode: 0, stdout: result === undefined ? "" : `${JSON.stringify(result)}\n` };
  } catch (error) {
    const failure = toFailure(error);
    context.logger.error(
      {
        verb: command,
        container: raw.env["CNI_CONTAINERID"],
        interface: raw.env["CNI_IFNAME"],
        err: failure,
      },
      "CNI request failed",
    );
    return {
      exitCode: 1,
      failure: failure.code,
      stdout: `${JSON.stringify(errorAnswer(failure, echoVersion(raw)))}\n`,
    };
  }
}

/** Verbs that take addresses along which are to be given back; a runtime asks the others many times an hour. */
const CARRIERS: ReadonlySet<string> = new Set(["ADD", "DEL", "CHECK", "GC"]);

async function carryOut(
  command: string,
  raw: RawRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<object | undefined> {
  const turn = (target: AttachmentTarget) => ({
    key: target.containerId,
    where: `container ${target.containerId}`,
    what: `${command} of interface ${target.interfaceName}`,
    signal,
  });
  switch (command) {
    case "ADD": {
      const request = parseAttachmentRequest(raw);
      return context.locks.run(turn(request), () => add(request, context, signal));
    }
    case "DEL": {
      // Deliberately without parsing stdin: a configuration that is gone or broken must not keep a port.
      const target = parseAttachmentTarget(raw.env);
      context.order.end(portRecordName(target.containerId, target.interfaceName), raw.startedAtMs);
      await context.locks.run(
        turn(target),
        () => del(target, raw, context, signal),
        (busy) => delLater(target, context, busy),
      );
      return undefined;
    }
    case "CHECK": {
      const request = parseAttachmentRequest(raw);
      requireVersion(request.config, "0.4.0", command);
      await context.locks.run(turn(request), () => check(request, context, signal));
      return undefined;
    }
    case "STATUS":
    case "GC": {
      const config = parseNetworkConfig(raw.stdin);
      requireVersion(config, "1.1.0", command);
      await (command === "GC" ? gc : status)(config, raw, context, signal);
      return undefined;
    }
    case "VERSION":
      return { cniVersion: echoVersion(raw), supportedVersions: SUPPORTED_CNI_VERSIONS };
    default:
      throw new Failure({
        code: "invalid-request",
        what: `CNI_COMMAND=${JSON.stringify(command)} is not a CNI verb`,
        where: "environment",
        fix: "the container runtime must set it to ADD, DEL, CHECK, GC, STATUS or VERSION",
      });
  }
}

function requireVersion(config: NetworkConfig, least: "0.4.0" | "1.1.0", command: string): void {
  if (isAtLeast(config.cniVersion, least)) return;
  throw new Failure({
    code: "unsupported-cni-version",
    what: `${command} needs cniVersion ${least}, the configuration says ${config.cniVersion}`,
    where: "network configuration",
  });
}

/** The caller's cniVersion where it can be made out, for errors about anything else too. */
function echoVersion(raw: RawRequest): string {
  try {
    const json: unknown = JSON.parse(raw.stdin.toString("utf8"));
    if (
      typeof json === "object" &&
      json !== null &&
      "cniVersion" in json &&
      typeof json.cniVersion === "string"
    ) {
      return json.cniVersion;
    }
  } catch {
    // Not JSON: the answer still needs a version.
  }
  return "1.1.0";
}
