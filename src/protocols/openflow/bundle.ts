import type { OpenflowConnection } from "./connection.ts";
import { encodeMessage, MESSAGE, pack, type Request, VERSION_1_3 } from "./message.ts";

const CONTROL = { open: 0, commit: 4, discard: 6 } as const;
/** `OFPBF_ATOMIC | OFPBF_ORDERED`: no packet sees a part of it. */
const ATOMIC_AND_ORDERED = 3;
/** Before 1.4, bundles are an extension of the Open Networking Foundation with these numbers. */
const ONF = 0x4f4e4600;
const ONF_BUNDLE_CONTROL = 2300;
const ONF_BUNDLE_ADD = 2301;
/** Time for taking a bundle back after its own deadline. */
const DISCARD_LIMIT_MS = 1000;

/** Number of the last bundle: each connection to a bridge has its own, and these differ over all. */
let lastBundle = 0;

/**
 * Does all requests at once or none of them; nothing is sent for no requests.
 * @throws Failure the first one's that the switch refuses, and then nothing was changed; dataplane-unavailable and
 *   dataplane-timeout, after which everything or nothing was
 */
export async function commitBundle(
  connection: OpenflowConnection,
  requests: readonly Request[],
  signal: AbortSignal,
): Promise<void> {
  if (requests.length === 0) return;
  lastBundle = (lastBundle + 1) % 2 ** 32;
  const id = lastBundle;
  try {
    await connection.exchange([control(id, CONTROL.open), ...requests.map((each) => add(id, each))], signal);
  } catch (failure) {
    const limit = AbortSignal.timeout(DISCARD_LIMIT_MS);
    // Without an answer the bundle goes with the connection or by the switch's own time-out.
    connection.exchange([control(id, CONTROL.discard)], limit).catch(() => undefined);
    throw failure;
  }
  await connection.exchange([control(id, CONTROL.commit)], signal);
}

function control(id: number, type: number): Request {
  const body = pack("I H H", id, type, ATOMIC_AND_ORDERED);
  return (version, xid) => encode(version, xid, MESSAGE.bundleControl, ONF_BUNDLE_CONTROL, body);
}

function add(id: number, inner: Request): Request {
  const head = pack("I 2x H", id, ATOMIC_AND_ORDERED);
  // Inside and outside must have the same number.
  return (version, xid) =>
    encode(version, xid, MESSAGE.bundleAdd, ONF_BUNDLE_ADD, Buffer.concat([head, inner(version, xid)]));
}

function encode(version: number, xid: number, type: number, extension: number, body: Buffer): Buffer {
  if (version !== VERSION_1_3) return encodeMessage(version, type, xid, body);
  return encodeMessage(
    version,
    MESSAGE.experimenter,
    xid,
    Buffer.concat([pack("I I", ONF, extension), body]),
  );
}
