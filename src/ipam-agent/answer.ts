import type { Answer } from "../cni/answer.ts";
import { answerVersion, errorAnswer, requestedVersion, requestFields } from "../cni/error-answer.ts";
import { toFailure } from "../failure/failure.ts";
import { requireVersion } from "../names/cni-version.ts";
import { type AddParts, add } from "./add.ts";
import type { AgentContext } from "./agent-context.ts";
import { check } from "./check.ts";
import { del } from "./del.ts";
import { gc } from "./gc.ts";
import { parseNetworkConfig } from "./network-config.ts";
import { type AgentRequest, parseAllocationRequest } from "./request.ts";
import { type StatusParts, status } from "./status.ts";

/** Name of the executable, with which errors begin. */
const EXECUTABLE = "kube-vhostuser-ipam";

/** Carries out one CNI verb (CNI spec 1.1.0, section 2); never throws. */
export async function answer(
  raw: AgentRequest,
  parts: AddParts & StatusParts,
  context: AgentContext,
  signal: AbortSignal,
): Promise<Answer> {
  try {
    const result = await carryOut(raw, parts, context, signal);
    return { exitCode: 0, stdout: result === undefined ? "" : `${JSON.stringify(result)}\n` };
  } catch (error) {
    const failure = toFailure(error);
    context.logger.error({ ...requestFields(raw), err: failure }, "IPAM request failed");
    const stdout = `${JSON.stringify(errorAnswer(failure, requestedVersion(raw), EXECUTABLE))}\n`;
    return { exitCode: 1, failure, stdout };
  }
}

async function carryOut(
  raw: AgentRequest,
  parts: AddParts & StatusParts,
  context: AgentContext,
  signal: AbortSignal,
): Promise<object | undefined> {
  const verb = raw.env["CNI_COMMAND"] ?? "";
  switch (verb) {
    case "ADD":
      return add(parseAllocationRequest(raw), parts, context, signal);
    case "DEL":
      await del(raw, context, signal);
      return undefined;
    case "CHECK": {
      const request = parseAllocationRequest(raw);
      requireVersion(request.config, "0.4.0", verb);
      check(request, context);
      return undefined;
    }
    case "GC":
    case "STATUS": {
      const config = parseNetworkConfig(raw.stdin);
      requireVersion(config, "1.1.0", verb);
      await (verb === "GC" ? gc(config, raw, context, signal) : status(config, parts, context, signal));
      return undefined;
    }
    default:
      return answerVersion(verb, raw, "the plugin that delegates");
  }
}
