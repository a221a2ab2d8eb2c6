import { Failure } from "../../src/failure/failure.ts";

/** A rejection handler that says which package has the program. */
export function partMissing(program: string, debianPackage: string): (cause: unknown) => never {
  return (cause) => {
    throw new Failure({
      code: "part-missing",
      what: `${program} does not run`,
      fix: `apt-get install ${debianPackage}`,
      cause,
    });
  };
}
