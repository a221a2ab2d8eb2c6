import { type Failure, toFailure } from "../failure/failure.ts";
import { retryPendingIpamDels } from "../ipam/release-addresses.ts";
import { requireVersion } from "../names/cni-version.ts";
import { add } from "./add.ts";
import { check } from "./check.ts";
import type { CniContext } from "./cni-context.ts";
import { del } from "./del.ts";
import { answerVersion, errorAnswer, requestedVersion, requestFields } from "./error-answer.ts";
import { gc } from "./gc.ts";
import { type NetworkConfig, parseNetworkConfig } from "./network-config.ts";
import { parseAttachmentRequest, parseSandboxInterface, type RawRequest } from "./request.ts";
import { status } from "./status.ts";

/** What the shim prints and exits with. */
export interface Answer {
  readonly exitCode: 0 | 1;
  /** One JSON object, or empty. */
  readonly stdout: string;
  /** The failure in it; not sent to the shim, as what follows. */
  readonly failure?: Failure;
  /** Keys of the network's configuration that are not known and were ignored. */
  readonly ignoredKeys?: readonly string[];
}

/** Carries out one CNI verb (CNI spec 1.1.0, section 2); never throws. */
export async function answer(raw: RawRequest, context: CniContext, signal: AbortSignal): Promise<Answer> {
  const { clock, logger } = context;
  const verb = raw.env["CNI_COMMAND"] ?? "";
  const startedAtMs = clock.monotonic();
  let ignoredKeys: readonly string[] = [];
  const parse = (stdin: Buffer): NetworkConfig => {
    const config = parseNetworkConfig(stdin);
    ({ ignoredKeys } = config);
    if (ignoredKeys.length > 0 && WARNING_VERBS.has(verb)) {
      logger.warn({ ...requestFields(raw), keys: ignoredKeys }, "unknown keys of the network are ignored");
    }
    return config;
  };
  try {
    const result = await carryOut(verb, raw, parse, context, signal).finally(() =>
      RETRYING.has(verb) ? retryPendingIpamDels(context, raw.delegate, startedAtMs) : undefined,
    );
    return { exitCode: 0, stdout: result === undefined ? "" : `${JSON.stringify(result)}\n`, ignoredKeys };
  } catch (error) {
    const failure = toFailure(error);
    logger.error({ ...requestFields(raw), err: failure }, "CNI request failed");
    const stdout = `${JSON.stringify(errorAnswer(failure, requestedVersion(raw)))}\n`;
    return { exitCode: 1, failure, stdout, ignoredKeys };
  }
}

/** Verbs that warn of unknown keys; the others come to the same networks. */
export const WARNING_VERBS: ReadonlySet<string> = new Set(["ADD", "STATUS"]);

/** Verbs that also retry pending releases of addresses; a runtime calls the others many times an hour. */
const RETRYING: ReadonlySet<string> = new Set(["ADD", "DEL", "CHECK", "GC"]);

async function carryOut(
  verb: string,
  raw: RawRequest,
  parse: (stdin: Buffer) => NetworkConfig,
  context: CniContext,
  signal: AbortSignal,
): Promise<object | undefined> {
  switch (verb) {
    case "ADD":
      return add(parseAttachmentRequest(raw, parse), context, signal);
    case "DEL":
      // stdin is not parsed: a configuration that is gone or broken must not keep a port.
      await del(parseSandboxInterface(raw.env), raw, context, signal);
      return undefined;
    case "CHECK": {
      const request = parseAttachmentRequest(raw, parse);
      requireVersion(request.config, "0.4.0", verb);
      await check(request, context, signal);
      return undefined;
    }
    case "STATUS":
    case "GC": {
      const config = parse(raw.stdin);
      requireVersion(config, "1.1.0", verb);
      await (verb === "GC" ? gc : status)(config, raw, context, signal);
      return undefined;
    }
    default:
      return answerVersion(verb, raw, "the container runtime");
  }
}
