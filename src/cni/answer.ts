import type { FailureCode } from "../failure/catalogue.ts";
import { Failure, toFailure } from "../failure/failure.ts";
import { retryPendingIpamDels } from "../ipam/release-addresses.ts";
import { isAtLeast, SUPPORTED_CNI_VERSIONS } from "../names/cni-version.ts";
import { add } from "./add.ts";
import { check } from "./check.ts";
import type { CniContext } from "./cni-context.ts";
import { del } from "./del.ts";
import { errorAnswer } from "./error-answer.ts";
import { gc } from "./gc.ts";
import { type NetworkConfig, parseNetworkConfig } from "./network-config.ts";
import { parseAttachmentRequest, parseSandboxInterface, type RawRequest } from "./request.ts";
import { status } from "./status.ts";

/** What the shim prints and exits with. */
export interface Answer {
  readonly exitCode: 0 | 1;
  /** One JSON object, or empty. */
  readonly stdout: string;
  /** Code of the failure in it; not sent to the shim. */
  readonly failure?: FailureCode;
}

/** Carries out one CNI verb (CNI spec 1.1.0, section 2); never throws. */
export async function answer(raw: RawRequest, context: CniContext, signal: AbortSignal): Promise<Answer> {
  const { clock, logger } = context;
  const verb = raw.env["CNI_COMMAND"] ?? "";
  const startedAt = clock.now();
  try {
    const result = await carryOut(verb, raw, context, signal).finally(() =>
      RETRYING.has(verb) ? retryPendingIpamDels(context, raw.delegate, startedAt) : undefined,
    );
    return { exitCode: 0, stdout: result === undefined ? "" : `${JSON.stringify(result)}\n` };
  } catch (error) {
    const failure = toFailure(error);
    const { CNI_CONTAINERID: container, CNI_IFNAME: interfaceName } = raw.env;
    logger.error({ verb, container, interface: interfaceName, err: failure }, "CNI request failed");
    const stdout = `${JSON.stringify(errorAnswer(failure, requestedVersion(raw)))}\n`;
    return { exitCode: 1, failure: failure.code, stdout };
  }
}

/** Verbs that also retry pending releases of addresses; a runtime calls the others many times an hour. */
const RETRYING: ReadonlySet<string> = new Set(["ADD", "DEL", "CHECK", "GC"]);

async function carryOut(
  verb: string,
  raw: RawRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<object | undefined> {
  switch (verb) {
    case "ADD":
      return add(parseAttachmentRequest(raw), context, signal);
    case "DEL":
      // stdin is not parsed: a configuration that is gone or broken must not keep a port.
      await del(parseSandboxInterface(raw.env), raw, context, signal);
      return undefined;
    case "CHECK": {
      const request = parseAttachmentRequest(raw);
      requireVersion(request.config, "0.4.0", verb);
      await check(request, context, signal);
      return undefined;
    }
    case "STATUS":
    case "GC": {
      const config = parseNetworkConfig(raw.stdin);
      requireVersion(config, "1.1.0", verb);
      await (verb === "GC" ? gc : status)(config, raw, context, signal);
      return undefined;
    }
    case "VERSION":
      return { cniVersion: requestedVersion(raw), supportedVersions: SUPPORTED_CNI_VERSIONS };
    default:
      throw new Failure({
        code: "invalid-request",
        what: `CNI_COMMAND=${JSON.stringify(verb)} is not a CNI verb`,
        where: "environment",
        fix: "the container runtime must set it to ADD, DEL, CHECK, GC, STATUS or VERSION",
      });
  }
}

function requireVersion(config: NetworkConfig, least: "0.4.0" | "1.1.0", verb: string): void {
  if (isAtLeast(config.cniVersion, least)) return;
  throw new Failure({
    code: "unsupported-cni-version",
    what: `${verb} needs cniVersion ${least}, the configuration says ${config.cniVersion}`,
    where: "network configuration",
  });
}

/** The request's cniVersion, or ours where stdin holds none: errors need one whatever is wrong with stdin. */
function requestedVersion({ stdin }: RawRequest): string {
  try {
    const { cniVersion }: { readonly cniVersion?: unknown } = JSON.parse(stdin.toString("utf8")) ?? {};
    if (typeof cniVersion === "string") return cniVersion;
  } catch {
    // Not JSON.
  }
  return "1.1.0";
}
