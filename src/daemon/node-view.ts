import type { PodDirectories } from "../allocation/pod-directories.ts";
import type { DaemonConfig } from "../config/schema.ts";
import type { DevicePlugin } from "../device-plugin/plugin.ts";
import type { PoolPlugin } from "../device-plugin/pool-plugins.ts";
import { DRA_DRIVER } from "../dra/dra-context.ts";
import type { EventCounts } from "../observe/events/event-poster.ts";
import type { ObservedNode } from "../observe/observed-node.ts";
import type { Records } from "../records/records.ts";

/** Parts of the daemon; plugins are added as they start. */
export interface ViewedParts {
  readonly config: DaemonConfig;
  readonly records: Records;
  readonly directories: PodDirectories;
  readonly rootProblem: () => Promise<string | undefined>;
  readonly poolPlugins: readonly PoolPlugin[];
  readonly plugins: readonly Pick<DevicePlugin, "resource" | "registered" | "registrations">[];
  readonly events: () => Readonly<EventCounts> | undefined;
}

/** What metrics and probes read, when they are asked. */
export function nodeView(parts: ViewedParts): ObservedNode {
  const { config, records, directories, rootProblem, poolPlugins, plugins } = parts;
  const resources = [...config.pools.map(({ resource }) => resource), config.dataplaneResource];
  if (config.dra.enabled) resources.push(DRA_DRIVER);
  return {
    ...{ records, recordsDirectory: config.recordsDirectory, cniSocket: config.cniSocket },
    ...{ root: config.root, rootProblem },
    pools: () =>
      poolPlugins.map(({ pool: { config: pool }, devices }) => ({
        ...{ name: pool.name, devices: devices.current(), healthy: devices.state.healthy },
        claimPorts: pool.claims?.ports ?? 0,
      })),
    plugins: () =>
      resources.map((resource) => {
        const plugin = plugins.find((one) => one.resource === resource);
        return {
          resource,
          registered: plugin?.registered ?? false,
          registrations: plugin?.registrations ?? 0,
        };
      }),
    events: () => parts.events() ?? { posted: 0, merged: 0, dropped: 0, failed: 0 },
    socketsOpened: () => directories.socketsOpened,
  };
}
