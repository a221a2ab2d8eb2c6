import { newSpace } from "../address-objects/address-space.ts";
import { ADDRESS_SPACES, DEFAULT_SPACE } from "../address-objects/resources.ts";
import { type ControllerContext, isOvertaken } from "./controller-context.ts";

/**
 * Makes the space `default` where there is none: pools that name no space use it. Its blocks can have other sizes where an
 * administrator made it before.
 * @returns whether the watches show it
 */
export async function ensureDefaultSpace(
  { api, view, onFailure }: ControllerContext,
  signal: AbortSignal,
): Promise<boolean> {
  if (view.spaces.entries.has(DEFAULT_SPACE)) return true;
  try {
    await api.create(ADDRESS_SPACES, newSpace(DEFAULT_SPACE), signal);
  } catch (error) {
    signal.throwIfAborted();
    if (!isOvertaken(error)) onFailure({}, "the default address space cannot be made", error);
  }
  return false;
}
