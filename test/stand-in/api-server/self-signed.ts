import { generateKeyPairSync, randomBytes, sign } from "node:crypto";

/** A certificate that is its own authority, with its key, as PEM. */
export interface SelfSigned {
  readonly cert: string;
  readonly key: string;
}

const EC_WITH_SHA256 = oid(1, 2, 840, 10045, 4, 3, 2);
const COMMON_NAME = oid(2, 5, 4, 3);
const SUBJECT_ALT_NAME = oid(2, 5, 29, 17);
const BASIC_CONSTRAINTS = oid(2, 5, 29, 19);

/** Makes a certificate for 127.0.0.1 that is good for a day (RFC 5280), since Node can read but not make one. */
export function selfSigned(): SelfSigned {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const name = sequence(set(sequence(COMMON_NAME, tagged(0x0c, Buffer.from("stand-in")))));
  const now = Date.now();
  const day = 86_400_000;
  const body = sequence(
    tagged(0xa0, tagged(0x02, Buffer.from([2]))),
    // Positive, and never 0.
    tagged(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    sequence(EC_WITH_SHA256),
    name,
    sequence(utcTime(now - day), utcTime(now + day)),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    tagged(
      0xa3,
      sequence(
        extension(BASIC_CONSTRAINTS, sequence(tagged(0x01, Buffer.from([0xff])))),
        extension(SUBJECT_ALT_NAME, sequence(tagged(0x87, Buffer.from([127, 0, 0, 1])))),
      ),
    ),
  );
  const signature = sign("sha256", body, privateKey);
  const der = sequence(
    body,
    sequence(EC_WITH_SHA256),
    tagged(0x03, Buffer.concat([Buffer.from([0]), signature])),
  );
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return {
    cert: ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n"),
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
  };
}

function extension(id: Buffer, value: Buffer): Buffer {
  return sequence(id, tagged(0x04, value));
}

function utcTime(ms: number): Buffer {
  return tagged(
    0x17,
    Buffer.from(
      `${new Date(ms)
        .toISOString()
        .replace(/[-:T]|\..*/g, "")
        .slice(2)}Z`,
    ),
  );
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return tagged(0x30, Buffer.concat(parts));
}

function set(...parts: readonly Buffer[]): Buffer {
  return tagged(0x31, Buffer.concat(parts));
}

function oid(first: number, second: number, ...rest: readonly number[]): Buffer {
  const bytes = rest.flatMap((part) => {
    const digits = [part & 0x7f];
    for (let left = part >> 7; left > 0; left >>= 7) digits.unshift((left & 0x7f) | 0x80);
    return digits;
  });
  return tagged(0x06, Buffer.from([first * 40 + second, ...bytes]));
}

function tagged(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}
