import type { PodDirectories } from "../allocation/pod-directories.ts";
import type { DaemonConfig } from "../config/schema.ts";
import type { DevicePlugin } from "../device-plugin/plugin.ts";
import type { PoolPlugin } from "../device-plugin/pool-plugins.ts";
import type { RunningEvents } from "../observe/events/start-events.ts";
import type { NodeView } from "../observe/node-view.ts";
import type { Reconciler } from "../reconcile/reconciler.ts";
import type { Records } from "../records/records.ts";

/** Parts that the observer tells of, as far as they are there already. */
export interface StartedParts {
  plugins?: readonly PoolPlugin[];
  dataplane?: DevicePlugin;
  directories?: PodDirectories;
  reconciler?: Reconciler;
  events?: RunningEvents;
}

/** What metrics and probes read, when they are asked. */
export function nodeView(config: DaemonConfig, records: Records, started: StartedParts): NodeView {
  const pluginView = (resource: string, plugin: DevicePlugin | undefined) => ({
    resource,
    registered: plugin?.registered ?? false,
    registrations: plugin?.registrations ?? 0,
  });
  const running = () => started.plugins ?? [];
  return {
    records,
    recordsDirectory: config.recordsDirectory,
    cniSocket: config.cniSocket,
    pools: () =>
      running().map(({ pool, devices }) => ({ name: pool.config.name, devices: devices.current() })),
    plugins: () => [
      ...config.pools.map(({ resource }) =>
        pluginView(resource, running().find(({ plugin }) => plugin.resource === resource)?.plugin),
      ),
      pluginView(config.dataplaneResource, started.dataplane),
    ],
    root: config.root,
    events: () => started.events?.counts ?? { posted: 0, merged: 0, dropped: 0, failed: 0 },
    socketsMended: () => started.directories?.socketsOpened ?? 0,
  };
}
