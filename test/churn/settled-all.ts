/** All of them, even if one fails: nothing may continue in the background of the next step. @throws the first failure */
export async function settledAll<Value>(works: readonly Promise<Value>[]): Promise<Value[]> {
  const results = await Promise.allSettled(works);
  return results.map((result) => {
    if (result.status === "rejected") throw result.reason;
    return result.value;
  });
}
