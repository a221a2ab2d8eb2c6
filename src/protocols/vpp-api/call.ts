import { type Field, i32, type Layout, u32, type ValuesOf } from "./fields.ts";

/** One message, which VPP knows by its name and a checksum over its fields. */
export interface Shape<Of extends Layout> {
  readonly name: string;
  /** Eight hexadecimal digits, as VPP's own message table has them. */
  readonly crc: string;
  /** The fields after the message's header (number, client index where it is a request, context). */
  readonly layout: Of;
}

/** A request with one answer. */
export interface Call<Ask extends Layout, Answer extends Layout> {
  readonly ask: Shape<Ask>;
  readonly answer: Shape<Answer>;
}

/** A request with any number of answers; VPP does not say which is the last. */
export interface Dump<Ask extends Layout, Answer extends Layout> extends Call<Ask, Answer> {
  readonly many: true;
}

/** A request, and its answer `<name>_reply`. */
export function call<Ask extends Layout, Answer extends Layout>(
  name: string,
  [askCrc, ask]: readonly [crc: string, Ask],
  [answerCrc, answer]: readonly [crc: string, Answer],
): Call<Ask, Answer> {
  return {
    ask: { name, crc: askCrc, layout: ask },
    answer: { name: `${name}_reply`, crc: answerCrc, layout: answer },
  };
}

/** A request `<name>_dump` for any number of `<name>_details`. */
export function dump<Ask extends Layout, Answer extends Layout>(
  name: string,
  [askCrc, ask]: readonly [crc: string, Ask],
  [answerCrc, answer]: readonly [crc: string, Answer],
): Dump<Ask, Answer> {
  return {
    ask: { name: `${name}_dump`, crc: askCrc, layout: ask },
    answer: { name: `${name}_details`, crc: answerCrc, layout: answer },
    many: true,
  };
}

const RETVAL = { retval: i32 };
const NEW_INTERFACE = { retval: i32, sw_if_index: u32 };

/** A request that is done or not. */
export function order<Ask extends Layout>(name: string, crc: string, ask: Ask): Call<Ask, typeof RETVAL> {
  return call(name, [crc, ask], ["e8d4e804", RETVAL]);
}

/** A request for a new interface. */
export function creation<Ask extends Layout>(
  name: string,
  crc: string,
  ask: Ask,
): Call<Ask, typeof NEW_INTERFACE> {
  return call(name, [crc, ask], ["5383d31f", NEW_INTERFACE]);
}

/** Several fields of the same kind, in this order. */
export function each<Value, const Name extends string>(
  field: Field<Value>,
  ...names: readonly Name[]
): { readonly [Each in Name]: Field<Value> } {
  return Object.fromEntries(names.map((name) => [name, field])) as { [Each in Name]: Field<Value> };
}

/** The values of a call's request. */
export type Asked<Of> = Of extends Call<infer Ask, Layout> ? ValuesOf<Ask> : never;

/** The values of a call's answer, or of one of a dump's details. */
export type Answered<Of> = Of extends Call<Layout, infer Answer> ? ValuesOf<Answer> : never;
