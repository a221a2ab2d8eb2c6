import { z } from "zod";

/** Who owns a socket directory inside an allocation, and its mode. */
export const directoryOwnershipSchema = z.strictObject({
  owner: z.number().int().nonnegative(),
  group: z.number().int().nonnegative(),
  /** Permission bits, setgid included. */
  mode: z.number().int().nonnegative().max(0o7777),
});

export type DirectoryOwnership = z.infer<typeof directoryOwnershipSchema>;
