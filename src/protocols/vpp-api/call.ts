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

/** Something that VPP sends by itself, once it was asked to. */
export type Event<Of extends Layout> = Shape<Of>;

/** A message of VPP. */
export function shape<const Of extends Layout>(name: string, crc: string, layout: Of): Shape<Of> {
  return { name, crc, layout };
}

/** A request and its answer. */
export function call<Ask extends Layout, Answer extends Layout>(
  ask: Shape<Ask>,
  answer: Shape<Answer>,
): Call<Ask, Answer> {
  return { ask, answer };
}

/** A request for details. */
export function dump<Ask extends Layout, Answer extends Layout>(
  ask: Shape<Ask>,
  answer: Shape<Answer>,
): Dump<Ask, Answer> {
  return { ask, answer, many: true };
}

/** Checksum of an answer that has nothing but its retval. */
const RETVAL = "e8d4e804";
/** Checksum of an answer that tells of a new interface. */
const NEW_INTERFACE = "5383d31f";

/** The field that most messages begin with. */
export const index = { sw_if_index: u32 };

/** The answer to a request that is done or not. */
export function done(request: string): Shape<{ readonly retval: Field<number> }> {
  return shape(`${request}_reply`, RETVAL, { retval: i32 });
}

/** The answer to a request for an interface. */
export function made(
  request: string,
): Shape<{ readonly retval: Field<number>; readonly sw_if_index: Field<number> }> {
  return shape(`${request}_reply`, NEW_INTERFACE, { retval: i32, ...index });
}

/** The values of a call's request. */
export type Asked<Of> = Of extends Call<infer Ask, Layout> ? ValuesOf<Ask> : never;

/** The values of a call's answer, or of one of a dump's details. */
export type Answered<Of> = Of extends Call<Layout, infer Answer> ? ValuesOf<Answer> : never;
