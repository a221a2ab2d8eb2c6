const LENGTH = 200;

/** The beginning of a value that came from outside, for an error text; never throws. */
export function excerpt(value: unknown): string {
  try {
    return String(JSON.stringify(value)).slice(0, LENGTH);
  } catch {
    return "(a value nested too deep to print)"; // JSON.stringify recurses, JSON.parse does not
  }
}
