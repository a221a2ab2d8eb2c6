import type { SwitchState } from "./state.ts";
import type { Fields } from "./wire-format.ts";

/** What a request leads to: messages under the request's context, and interfaces whose change is an event. */
export interface Outcome {
  readonly says: readonly (readonly [name: string, fields: Fields])[];
  readonly changed?: readonly { readonly index: number; readonly deleted: boolean }[];
}

/** What the stand-in does when it is asked. */
export type Handler = (state: SwitchState, ask: Fields) => Outcome;

/** The answer to a request, with what it has beside its retval. */
export const done = (name: string, retval: number, more: Fields = {}): Outcome => ({
  says: [[`${name}_reply`, { retval, ...more }]],
});
