/** One line of `/proc/<pid>/mountinfo` (proc(5)): what is mounted where in that process' mount namespace. */
export interface Mount {
  /** Directory of the file system that is seen there; not `/` where only a part of it was bind-mounted. */
  readonly part: string;
  readonly mountPoint: string;
  /** Flags of this mount point, such as `nosuid`; a bind mount of it inherits them. */
  readonly flags: ReadonlySet<string>;
  readonly type: string;
  readonly source: string;
  /** Options of the file system, such as `size=16384k`. */
  readonly options: readonly string[];
}

/** Parses mountinfo; a line that is none is left out. */
export function parseMountInfo(text: string): readonly Mount[] {
  return text.split("\n").flatMap((line) => {
    const [mount = "", fileSystem = ""] = line.split(" - ");
    const [, , , part, mountPoint, flags] = mount.split(" ");
    const [type, source, options] = fileSystem.split(" ");
    if (part === undefined || mountPoint === undefined || flags === undefined || type === undefined)
      return [];
    return [
      {
        part: withoutEscapes(part),
        mountPoint: withoutEscapes(mountPoint),
        flags: new Set(flags.split(",")),
        type,
        source: withoutEscapes(source ?? ""),
        options: (options ?? "").split(","),
      },
    ];
  });
}

/** The mount that a path (real, without links) lies on: the deepest, and of several on top of each other the last. */
export function mountOf(path: string, mounts: readonly Mount[]): Mount | undefined {
  let found: Mount | undefined;
  for (const mount of mounts) {
    const below = mount.mountPoint === "/" ? "/" : `${mount.mountPoint}/`;
    if (path !== mount.mountPoint && !path.startsWith(below)) continue;
    if (found === undefined || mount.mountPoint.length >= found.mountPoint.length) found = mount;
  }
  return found;
}

/** Blanks and the like are octal, `\040`. */
function withoutEscapes(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
