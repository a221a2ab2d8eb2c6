import { lstat } from "node:fs/promises";
import { join } from "node:path";
import { allocationDirectory } from "../allocation/layout.ts";
import { portRequest } from "../attachment/ensure-attachment.ts";
import { portLock } from "../attachment/port-lock.ts";
import { Failure } from "../failure/failure.ts";
import { runIpam } from "../ipam/plugin-ipam.ts";
import { interfaceInSandbox, type PortRecord, portKey, portOfSandbox } from "../records/port-record.ts";
import type { CniContext } from "./cni-context.ts";
import type { AttachmentRequest } from "./request.ts";

/**
 * CHECK: record, directory, port and prevResult are as ADD left them, and the IPAM finds nothing wrong.
 * @throws Failure `check-failed` with all that differs, or what the IPAM answered
 */
export async function check(
  request: AttachmentRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<void> {
  const { ports } = context.node.records;
  const found = portOfSandbox(ports.list(), request);
  const problems =
    found === undefined
      ? NOT_ATTACHED
      : await context.locks.run(portLock(found, `CHECK of interface ${request.interfaceName}`, signal), () =>
          allProblems(ports.get(portKey(found)), request, context, signal),
        );
  if (problems.length > 0) {
    throw new Failure({
      code: "check-failed",
      what: problems.join("; "),
      where: `container ${request.containerId}, interface ${request.interfaceName}`,
      fix: "the daemon's log says what it repaired and what it could not",
    });
  }
  const type = request.config.ipam?.type;
  if (type !== undefined) await runIpam(type, "CHECK", request.raw, request.raw.delegate);
}

const NOT_ATTACHED: readonly string[] = ["it is not attached"];

async function allProblems(
  record: PortRecord | undefined,
  request: AttachmentRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<readonly string[]> {
  if (record?.state !== "attached" || record.containerId !== request.containerId) return NOT_ATTACHED;
  return [
    ...(await directoryProblems(record, context)),
    ...(await portProblems(record, context, signal)),
    ...resultProblems(record, request),
  ];
}

async function directoryProblems(record: PortRecord, context: CniContext): Promise<readonly string[]> {
  const allocation = context.node.records.allocations.get(record.allocationId);
  if (allocation === undefined) return [`the record of allocation ${record.allocationId} is gone`];
  const path = join(allocationDirectory(context.node.config.root, allocation.id), record.interfaceName);
  const status = await lstat(path).catch(() => undefined);
  if (status === undefined) return [`the directory ${path} is gone`];
  if (!status.isDirectory()) return [`${path} is not a directory but something that was put in its place`];
  const { owner, group, mode } = allocation.ownership;
  const is = status.mode & 0o7777;
  if (status.uid === owner && status.gid === group && is === mode) return [];
  return [
    `${path} is ${status.uid}:${status.gid} ${is.toString(8)}, not ${owner}:${group} ${mode.toString(8)}`,
  ];
}

async function portProblems(
  record: PortRecord,
  context: CniContext,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const pool = context.node.pools.ofPort(record);
  if (pool === undefined) return [`pool ${record.pool} is not configured any more`];
  return pool.dataplane.checkPort(portRequest(context.node, record), signal);
}

function resultProblems(record: PortRecord, request: AttachmentRequest): readonly string[] {
  const { prevResult } = request.config;
  if (!prevResult) return ["CHECK came without prevResult"];
  // Another plugin of the chain may have one of the same name.
  const named = (prevResult.interfaces ?? []).filter(
    ({ name, sandbox }) => name === interfaceInSandbox(record) && sandbox === record.netns,
  );
  if (named.length === 0)
    return [`prevResult has no interface ${interfaceInSandbox(record)} in ${record.netns}`];
  const macs = named.map(({ mac }) => mac?.toLowerCase());
  return macs.includes(record.mac)
    ? []
    : [`prevResult says MAC ${macs.join(", ")}, attached is ${record.mac}`];
}
