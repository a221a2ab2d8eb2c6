/** The daemon's own deadline is 3 s; kubelet's list may take 5 s. */
const ANSWER_MS = 12_000;

/** The daemon said that there is no such thing. */
export class NotThere extends Error {}

/** Asks the daemon. @throws NotThere for a 404; any other Error where it cannot be asked or has no answer */
export async function ask<Answer>(path: string): Promise<Answer> {
  const response = await fetch(path, { signal: AbortSignal.timeout(ANSWER_MS), cache: "no-store" });
  if (response.status === 404) throw new NotThere(path);
  if (!response.ok) throw new Error(`the daemon answered ${response.status}`);
  return (await response.json()) as Answer;
}
