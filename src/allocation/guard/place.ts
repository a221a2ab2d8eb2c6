import { HeldDirectory } from "./held-directory.ts";
import type { Lock } from "./lock-directory.ts";
import type { Watch } from "./watch-once.ts";

/** The root, an allocation or one of the directories in it, as the guard keeps it in mind. */
export interface Place {
  readonly level: "root" | "allocation" | "directory";
  /** Below the root; empty for the root. One character for each byte, as names of `HeldDirectory`. */
  readonly path: string;
  readonly children: Map<string, Place>;
  watch: Watch | undefined;
  state: "watched" | "due" | "looking" | "gone";
  /** Changes since it was quiet, and when the last one was (milliseconds since the epoch). */
  changes: number;
  changedAt: number;
  /** Looks that changes led to since `spanBegan` (milliseconds since the epoch). */
  looksInSpan: number;
  spanBegan: number;
  /** Inodes of the whole root that were in use then; undefined when nobody could tell. */
  inodesAtSpan: number | undefined;
  /** What to give back to the pod from which the directory was taken. */
  lock: Lock | undefined;
  /** How often that was. */
  offences: number;
}

/** A place that is to be looked at; without a parent it is the root. */
export function newPlace(parent: Place | undefined, name: string): Place {
  return {
    level: parent === undefined ? "root" : parent.level === "root" ? "allocation" : "directory",
    path: parent === undefined || parent.level === "root" ? name : `${parent.path}/${name}`,
    children: new Map(),
    watch: undefined,
    state: "due",
    changes: 0,
    changedAt: 0,
    looksInSpan: 0,
    spanBegan: Number.NEGATIVE_INFINITY,
    inodesAtSpan: undefined,
    lock: undefined,
    offences: 0,
  };
}

/** Opens it, from the root down without a link on the way; undefined when it is gone. */
export function openPlace(root: string, { level, path }: Place): HeldDirectory | undefined {
  const top = HeldDirectory.open(root);
  if (level === "root" || top === undefined) return top;
  using _top = top;
  const [allocation = "", name] = path.split("/");
  const above = top.openEntry(allocation);
  if (name === undefined || above === undefined) return above;
  using _above = above;
  return above.openEntry(name);
}
