import * as z from "zod";

/**
 * Whether a text has the shape of an SELinux context with its level, `user:role:type:level`; whether the policy knows
 * it only the kernel can say. Without categories in the level every pod may use what carries it.
 */
export function isSelinuxLabel(text: string): boolean {
  return text.length <= 255 && /^[\w.]+:[\w.]+:[\w.]+:s\d[\w.,:-]*$/.test(text);
}

/** Who owns a socket directory inside an allocation, its mode and label. */
export const directoryOwnershipSchema = z.strictObject({
  owner: z.number().int().nonnegative(),
  group: z.number().int().nonnegative(),
  /** Permission bits, setgid included. */
  mode: z.number().int().nonnegative().max(0o7777),
  /** SELinux context; without one the kernel's default stays. */
  selinuxLabel: z.string().refine(isSelinuxLabel).optional(),
});

export type DirectoryOwnership = z.infer<typeof directoryOwnershipSchema>;
