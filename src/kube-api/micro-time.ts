/** Time with the six digits that the API server insists on (`MicroTime`). */
export function microTime(ms: number): string {
  return new Date(ms).toISOString().replace(/Z$/, "000Z");
}
