import { customAlphabet } from "nanoid";

const LENGTH = 16;
const random = customAlphabet("0123456789abcdefghijklmnopqrstuvwxyz", LENGTH);

/** A fresh allocation id: 16 lower-case letters and digits (82 bits), safe as a directory name. */
export function newAllocationId(): string {
  return random();
}

/** Whether a text could have come from {@link newAllocationId}. */
export function isAllocationId(text: string): boolean {
  return new RegExp(`^[0-9a-z]{${LENGTH}}$`).test(text);
}
