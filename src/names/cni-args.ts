/**
 * `CNI_ARGS`: `K=V;K2=V2` (CNI conventions); pairs without `=` are left out, as the reference library does with unknown
 * ones.
 */
export function parseCniArgs(text: string): Readonly<Record<string, string>> {
  const args: Record<string, string> = Object.create(null);
  for (const pair of text.split(";")) {
    const at = pair.indexOf("=");
    if (at > 0) args[pair.slice(0, at)] = pair.slice(at + 1);
  }
  return args;
}
