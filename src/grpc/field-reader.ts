/**
 * Most fields of one answer that are read, so that it takes little memory whatever it has. The largest, kubelet's list of
 * a node of 500 pods with 10 devices each, has some 10,000.
 */
const MOST_FIELDS = 100_000;
/** Bytes of a field, by wire type. */
const FIXED: Readonly<Record<number, number>> = { 1: 8, 5: 4 };

/** Reads the messages of one protobuf answer (protobuf.dev, Encoding) of which only some fields are used. */
export class FieldReader {
  #fields = 0;

  /** Calls `onField` with each text and each message. @throws RangeError where they are malformed, or too many */
  read(bytes: Buffer, onField: (number: number, content: Buffer) => void): void {
    let at = 0;
    const varint = (): number => {
      let value = 0;
      for (let scale = 1; scale < 2 ** 64; scale *= 128) {
        const byte = bytes[at++] ?? Number.NaN;
        value += (byte % 128) * scale;
        if (byte < 128) return value;
      }
      throw new RangeError("it is malformed");
    };
    while (at < bytes.length) {
      this.#fields += 1;
      if (this.#fields > MOST_FIELDS) throw new RangeError(`it has more than ${MOST_FIELDS} fields`);
      const key = varint();
      const type = key % 8;
      if (type === 0) varint();
      else {
        const length = type === 2 ? varint() : (FIXED[type] ?? Number.NaN);
        const end = at + length;
        if (!(end <= bytes.length)) throw new RangeError("it is malformed");
        if (type === 2) onField(Math.floor(key / 8), bytes.subarray(at, end));
        at = end;
      }
    }
  }
}
