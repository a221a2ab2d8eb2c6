import { Failure } from "../../src/failure/failure.ts";

/** The failure that a promise rejects with. @throws Error for any other end */
export async function failureOf(promise: Promise<unknown>): Promise<Failure> {
  const thrown = await promise.then(
    (value) => value,
    (error: unknown) => error,
  );
  if (thrown instanceof Failure) return thrown;
  throw new Error(`a Failure was expected, not ${String(thrown)}`);
}
