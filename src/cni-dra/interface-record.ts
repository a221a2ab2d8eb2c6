import * as z from "zod";
import type { RecordKind } from "../records/record-store.ts";

const reference = z.object({ namespace: z.string(), name: z.string(), uid: z.string() });

const planSchema = z.object({
  claim: reference,
  /** The only one that the claim is reserved for. */
  pod: reference,
  request: z.string(),
  pool: z.string(),
  device: z.string(),
  shareID: z.string().optional(),
  ifName: z.string(),
  network: z.object({
    cniVersion: z.string(),
    name: z.string(),
    disableCheck: z.boolean().optional(),
    plugins: z.array(z.looseObject({ type: z.string() })),
  }),
});

const attachmentSchema = z.object({
  sandbox: z.string(),
  /** Path of the network namespace at ADD. */
  netns: z.string(),
  /** `adding` is on disk before the first plugin runs. */
  state: z.enum(["adding", "added", "deleting"]),
  /** Of the last plugin's ADD. */
  result: z.record(z.string(), z.unknown()).optional(),
  /** When ADD began, in milliseconds since the epoch. */
  since: z.number(),
  /** When its DEL was tried first, in the same way. */
  endedAt: z.number().optional(),
});

const recordSchema = planSchema.extend({
  /** That of its claim; in the order of kubelet's calls, which is that of the claims in their pod. */
  sequence: z.number(),
  /** kubelet has ended the claim: what is left of it is to be removed. */
  released: z.boolean(),
  /** By sandbox; the pod's present one and older ones whose DEL is still to come. */
  attachments: z.array(attachmentSchema),
});

/** An interface that a claim asks for, with the CNI configuration that makes it. */
export type InterfacePlan = z.infer<typeof planSchema>;

/** An ADD that was begun and not undone. */
export type Attachment = z.infer<typeof attachmentSchema>;

/** An interface of a prepared claim. */
export type InterfaceRecord = z.infer<typeof recordSchema>;

/** Key of an interface's record, also the name of its file of readiness. */
export function interfaceKey({ claim, request }: Pick<InterfacePlan, "claim" | "request">): string {
  return `${claim.uid}_${request}`;
}

export const interfaceRecordKind: RecordKind<InterfaceRecord> = {
  version: 1,
  // The addresses of a DEL that is still to come survive a power cut too.
  durable: true,
  schema: recordSchema,
  nameOf: interfaceKey,
};
