/** Pools as a configuration file has them: a map by name. */
export function poolsByName<Pool extends { readonly name: string }>(
  ...pools: readonly Pool[]
): Readonly<Record<string, Omit<Pool, "name">>> {
  return Object.fromEntries(pools.map(({ name, ...keys }) => [name, keys]));
}
