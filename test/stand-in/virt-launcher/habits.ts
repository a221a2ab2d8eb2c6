/** Releases of KubeVirt that differ for a hook sidecar; `main` is what follows 1.9. */
export type KubevirtVersion =
  | "1.2"
  | "1.3"
  | "1.4"
  | "1.5"
  | "1.6"
  | "1.6.3"
  | "1.7"
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
}

/** The habits of a release. */
export function habitsOf(version: KubevirtVersion): Habits {
  const isNested = minor(version) >= 6;
  return {
    hooksDirectory: isNested ? "nested" : "flat",
    tellsContainer: isNested,
    tellsBinding: minor(version) >= 9,
    infoOnTarget: minor(version) >= 7 || version === "1.6.3",
    hasPlugins: minor(version) >= 9,
  };
}

/** 1.9 → 9; main is the release after the last one. */
export function minor(version: KubevirtVersion): number {
  return version === "main" ? 10 : Number(version.split(".")[1]);
}
