import type { Place, TracedInterface } from "../shape.ts";
import { broken, type LinkFinding, ok, RECREATE } from "./link.ts";

/** The directory of an allocation is root's, or its pod could replace what is in it. */
const ALLOCATION = { owner: 0, group: 0, mode: 0o755 };
const REPAIRED =
  "the daemon makes it again, at its next pass (reclaim.intervalSeconds, 30 s) at the latest; its log says why if it cannot";

/** What the check of a directory reads. */
export type CheckedDirectory = Pick<
  TracedInterface,
  "places" | "ownership" | "rootProblem" | "state" | "createdAt" | "socketServer" | "port"
>;

/** Whether the directory of an interface or a device is there, with owner and mode, and is the one that its pod has mounted. */
export function checkDirectory(one: CheckedDirectory): LinkFinding {
  const { places, ownership, rootProblem } = one;
  if (rootProblem !== undefined) {
    return broken(
      rootProblem,
      "the root was unmounted or remounted on the node, or something was mounted over it",
      `delete the daemon's pod on this node: the next one mounts the root. Then ${RECREATE}`,
    );
  }
  if (places === undefined || ownership === undefined) return ok("not checked");
  const { allocation, directory } = places;
  const problem = checkPlace(allocation, ALLOCATION) ?? checkPlace(directory, ownership);
  if (problem !== undefined) return problem;
  if (!isReplaced(one, places)) return ok(`${directory.path} ${describeOwner(directory)}`);
  return broken(
    `${allocation.path} was made again after the pod was attached`,
    "the root was mounted again, or the directory was removed; the pod still has the old one, which neither switch nor daemon see",
    RECREATE,
  );
}

function checkPlace(
  place: Place,
  wanted: Required<Pick<Place, "owner" | "group" | "mode">>,
): LinkFinding | undefined {
  const { path, kind, reason, owner, group, mode } = place;
  if (kind === "missing") {
    return broken(
      `${path} is not there`,
      "it was removed, or the root was mounted again over it; a running pod keeps the old one in its mount",
      `${REPAIRED}; a pod that had it mounted has to be deleted to see the new one`,
    );
  }
  if (kind !== "directory") {
    return broken(
      `${path} is no directory${reason === undefined ? "" : `: ${reason}`}`,
      "a process with the rights of root replaced it",
      "find out what did it; delete the pod",
    );
  }
  if (owner === wanted.owner && group === wanted.group && mode === wanted.mode) return undefined;
  return broken(
    `${path} has ${describeOwner(place)}, it should have ${describeOwner(wanted)}`,
    "the pod as root of its container, or a person, changed it",
    REPAIRED,
  );
}

/** Whether the pod's containers may have mounted another directory: each ADD comes after its container's Allocate. */
function isReplaced(
  { state, createdAt, socketServer, port }: CheckedDirectory,
  { allocation, socket }: NonNullable<TracedInterface["places"]>,
): boolean {
  const isUsed = socketServer === "switch" ? port?.connected !== false : socket.kind !== "missing";
  return state === "attached" && !isUsed && (allocation.madeAt ?? 0) > createdAt;
}

function describeOwner({ owner, group, mode }: Pick<Place, "owner" | "group" | "mode">): string {
  return `owner ${owner}:${group} mode ${octal(mode)}`;
}

/** Permission bits as chmod takes them. */
export function octal(mode = 0): string {
  return mode.toString(8).padStart(4, "0");
}
