/** Releases of KubeVirt that differ for a hook sidecar; `main` is what follows 1.9. */
export type KubevirtVersion =
  | "1.2"
  | "1.3"
  | "1.4"
  | "1.5"
  | "1.6"
  | "1.6.3"
  | "1.6.4"
  | "1.7"
  | "1.7.2"
  | "1.8"
  | "1.9"
  | "main";

/** What a release does with hook sidecars. */
export interface Habits {
  /** `nested`: a directory for each sidecar, which sees its own alone. `flat`: all see all. */
  readonly hooksDirectory: "flat" | "nested";
  /** Whether a sidecar gets its container's name (CONTAINER_NAME). */
  readonly tellsContainer: boolean;
  /** Whether a sidecar gets the name of its registration (NETWORK_BINDING_PLUGIN_NAME). */
  readonly tellsBinding: boolean;
  /** Whether a migration's target gets network-info. */
  readonly infoOnTarget: boolean;
  /** Whether it has structured plugins. */
  readonly hasPlugins: boolean;
  /**
   * How it keeps PCI slots for devices that are plugged later. `four NICs`: placeholder NICs up to four. `by memory`: as
   * many placeholders as the VM's memory and devices ask for. `both`: the former, and root ports for the rest.
   */
  readonly freeSlots: "four NICs" | "by memory" | "both";
  /** Whether it reads the devices back from libvirt, and defines the VM again, where it has no placeholders. */
  readonly readsBackAlways: boolean;
  /** Whether QEMU's command line survives the way through its structs. */
  readonly keepsCommandline: boolean;
}

/** The habits of a release. */
export function habitsOf(version: KubevirtVersion): Habits {
  const [minor, patch = 0] = version === "main" ? [10] : version.split(".").slice(1).map(Number);
  const since = (newMinor: number, ...backports: readonly [minor: number, patch: number][]) =>
    (minor ?? 0) >= newMinor || backports.some(([branch, first]) => minor === branch && patch >= first);
  const isNested = since(6);
  return {
    hooksDirectory: isNested ? "nested" : "flat",
    tellsContainer: isNested,
    tellsBinding: since(9),
    infoOnTarget: since(7, [6, 3]),
    hasPlugins: since(9),
    freeSlots: since(8, [6, 4], [7, 2]) ? "both" : since(6) ? "by memory" : "four NICs",
    readsBackAlways: since(10),
    keepsCommandline: since(10),
  };
}
