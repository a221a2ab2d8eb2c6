import type { Place, TracedInterface } from "../shape.ts";
import { broken, type LinkFinding, ok } from "./link.ts";

/** The directory of an allocation is root's, or its pod could swap what is in it. */
const ALLOCATION = { owner: 0, group: 0, mode: 0o755 };
const MENDED =
  "the daemon makes it again, at its next pass (reclaim.intervalSeconds, 30 s) at the latest; its log says why if it cannot";

/** Whether the interface's directory is there, with owner and mode. */
export function checkDirectory({ places, ownership }: TracedInterface): LinkFinding {
  if (places === undefined || ownership === undefined) return ok("not checked");
  return checkOwnership(places, ownership);
}

/** The same for the directory of an interface or a device. */
export function checkOwnership(
  { allocation, directory }: Pick<NonNullable<TracedInterface["places"]>, "allocation" | "directory">,
  ownership: NonNullable<TracedInterface["ownership"]>,
): LinkFinding {
  for (const place of [allocation, directory]) {
    if (place.kind === "directory") continue;
    return place.kind === "missing"
      ? broken(
          `${place.path} is not there`,
          "it was removed, or the root was mounted again over it; a running pod keeps the old one in its mount",
          `${MENDED}; a pod that had it mounted has to be deleted to see the new one`,
        )
      : broken(
          `${place.path} is no directory${place.reason === undefined ? "" : `: ${place.reason}`}`,
          "a process with the rights of root put something in its place",
          "find out what did it; delete the pod",
        );
  }
  const wrong = differs(allocation, ALLOCATION);
  if (wrong !== undefined) {
    return broken(
      `${allocation.path} has ${wrong}`,
      "the pod as root of its container, or a person, changed it",
      MENDED,
    );
  }
  const odd = differs(directory, ownership);
  if (odd === undefined) return ok(`${directory.path} ${described(directory)}`);
  return broken(
    `${directory.path} has ${odd}`,
    "the pod as root of its container, or a person, changed it",
    MENDED,
  );
}

function differs(
  place: Place,
  wanted: { readonly owner: number; readonly group: number; readonly mode: number },
): string | undefined {
  const { owner, group, mode } = wanted;
  if (place.owner === owner && place.group === group && place.mode === mode) return undefined;
  return `${described(place)}, it should have ${described(wanted)}`;
}

function described({ owner, group, mode }: Partial<Pick<Place, "owner" | "group" | "mode">>): string {
  return `owner ${owner}:${group} mode ${(mode ?? 0).toString(8).padStart(4, "0")}`;
}
