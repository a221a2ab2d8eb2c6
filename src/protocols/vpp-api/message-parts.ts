import { type Shape, shape } from "./call.ts";
import { type Field, i32, u32 } from "./fields.ts";

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
