// The driver from top to bottom: every part in the order in which it starts.
import { isDeepStrictEqual } from "node:util";
import { preferLessMemory } from "../command-line/memory-flags.ts";
import { ClaimStatusWriter } from "../dra/claim-status.ts";
import { SlicePublisher } from "../dra/resource-slices.ts";
import { type Failure, toFailure } from "../failure/failure.ts";
import { takeOwnership } from "../files/owner-lock.ts";
import { executePluginsOf } from "../ipam/execute-plugin.ts";
import { hasOtherNetns } from "../ipam-agent/netns.ts";
import { type ApiServerPlace, openKubeApi } from "../kube-api/open-api.ts";
import { type DraPlugin, startDraPlugin } from "../kubelet/dra-plugin.ts";
import type { ClaimReference } from "../kubelet/dra-service.ts";
import type { Logger } from "../logging/logger.ts";
import { EventPoster } from "../observe/events/event-poster.ts";
import { NriPlugin } from "../protocols/nri/nri-plugin.ts";
import { RecordStore } from "../records/record-store.ts";
import { type Clock, systemClock } from "../sync/clock.ts";
import type { DriverConfig } from "./driver-config.ts";
import { offeredInterfaces, readDevices } from "./host-interfaces.ts";
import { writeCdiFile } from "./interface-files.ts";
import { type InterfaceRecord, interfaceKey, interfaceRecordKind } from "./interface-record.ts";
import { Interfaces } from "./interfaces.ts";
import { DriverMetrics } from "./observe-driver.ts";
import { CNI_DRIVER } from "./plan-interfaces.ts";
import { prepareClaim, unprepareClaim } from "./prepare.ts";
import { eventAbout, readyReason, reportOf } from "./report-interface.ts";
import { serveDriverStatus } from "./serve-status.ts";

/** From the command line, the environment and the configuration file. */
export interface ServeOptions {
  /** Name of the node. */
  readonly node: string;
  readonly config: DriverConfig;
  readonly stateDirectory: string;
  /** Directory of CNI plugins, as this process and they see it. */
  readonly pluginDirectory: string;
  readonly nriSocket: string;
  /** kubelet's directories, at the same paths as on the host. */
  readonly kubelet: { readonly plugins: string; readonly pluginsRegistry: string };
  readonly cdiDirectory: string;
  /** Memory, at the same path as on the host. */
  readonly readyDirectory: string;
  readonly netnsDirectory: string;
  /** Default: the kernel's. */
  readonly sysfs?: string;
  /** Where metrics and probes are served; absent to serve none. */
  readonly listen?: { readonly address: string; readonly port: number };
  /** Whether events about pods are posted; default no. */
  readonly events?: boolean;
  /** Where vhostuserctl asks; absent to serve it nothing. */
  readonly statusSocket?: string;
  readonly serviceAccountDirectory: string;
  readonly apiServer: ApiServerPlace | undefined;
  readonly apiServerUrl?: string | undefined;
  readonly podUid: string | undefined;
  readonly clock?: Clock;
  readonly logger: Logger;
  /** Called once metrics are served, with where they are. */
  readonly onServing?: (url: string) => void;
  /** Ends it. */
  readonly signal: AbortSignal;
}

const PLUGIN_NAME = "cni-dra";
/** After plugins that change what pods get, and before those that look at it. */
const PLUGIN_INDEX = "50";
/** Between two reads of the host's interfaces. */
const INTERFACES_MS = 30_000;
/** Between two checks whether the runtime has sent its sandboxes. */
const SYNCHRONIZED_MS = 100;

/** Serves until the signal fires. @throws what ended the start */
export async function serveCniDra(options: ServeOptions): Promise<void> {
  const { node, config, stateDirectory, kubelet, netnsDirectory, logger, signal } = options;
  const { clock = systemClock, sysfs = "/sys", pluginDirectory } = options;
  await using undo = new AsyncDisposableStack();

  // 1. The records, which one driver at a time owns.
  const owner = await takeOwnership(stateDirectory, clock, signal);
  undo.defer(() => owner.release());
  const records = await RecordStore.open(stateDirectory, interfaceRecordKind, logger);
  const { cdiDirectory, readyDirectory } = options;
  const places = { cdiDirectory, readyDirectory };
  // After a reboot no CDI file is left.
  const live = records.list().filter(({ released }) => !released);
  for (const own of Map.groupBy(live, ({ claim }) => claim.uid).values()) writeCdiFile(own, places);

  // 2. The API server, for claims and their status.
  const { serviceAccountDirectory, apiServerUrl: apiServer } = options;
  const { api } = openKubeApi("--api-server", { serviceAccountDirectory, apiServer }, options.apiServer);
  undo.defer(() => api.close());
  const status = new ClaimStatusWriter({
    ...{ api, driver: CNI_DRIVER, reasonOf: readyReason, clock, logger },
  });
  undo.defer(() => status.close());
  const poster = options.events
    ? new EventPoster({ api, program: "cni-dra", instance: node, clock, logger })
    : undefined;
  undo.defer(() => poster?.close());
  const problems = new Map<string, Failure>();
  records.subscribe((before, after) => {
    if (before !== undefined && after === undefined) problems.delete(interfaceKey(before));
  });
  const reportClaim = ({ claim }: InterfaceRecord) => {
    const stuck = interfaces.dels.failing().filter(({ isStuck }) => isStuck);
    const devices = records.list().flatMap((one) => {
      if (one.claim.uid !== claim.uid) return [];
      const key = interfaceKey(one);
      const del = stuck.find(({ record }) => interfaceKey(record) === key);
      return reportOf(one, problems.get(key), del) ?? [];
    });
    status.report({ claim, devices });
  };
  const report = (record: InterfaceRecord, problem?: Failure) => {
    if (problem === undefined) problems.delete(interfaceKey(record));
    else problems.set(interfaceKey(record), problem);
    reportClaim(record);
    if (problem !== undefined)
      poster?.post(eventAbout(record, "InterfaceFailed", "Attach", "cannot be attached", problem));
  };
  const reportDel = (record: InterfaceRecord) => {
    reportClaim(record);
    const stuck = interfaces.dels
      .failing()
      .find((del) => del.isStuck && interfaceKey(del.record) === interfaceKey(record));
    if (stuck !== undefined)
      poster?.post(eventAbout(record, "InterfaceNotRemoved", "Detach", "cannot be removed", stuck.failure));
  };

  // 3. Metrics and probes, also while the runtime is away.
  const metrics = new DriverMetrics(() => ({
    ...{ records: records.list(), failing: interfaces.dels.failing(), isConnected: isConnected() },
    ...{ isRegistered: plugin?.registered === true, events: poster?.counts },
  }));

  // 4. Interfaces, and the runtime that says when a sandbox starts and ends.
  const interfaces = new Interfaces({
    ...{ records, places, report, reportDel, clock, logger },
    delegate: metrics.plugins(executePluginsOf(pluginDirectory)),
    hasNetns: (path) => hasOtherNetns(path, netnsDirectory),
  });
  const nri = new NriPlugin({
    ...{ name: PLUGIN_NAME, index: PLUGIN_INDEX, socketPath: options.nriSocket },
    ...{ handler: metrics.hooks(interfaces), clock, logger },
  });
  const isConnected = () => nri.state.synchronized;
  let plugin: DraPlugin | undefined;
  const stop = new AbortController();
  const running = Promise.all([interfaces.run(stop.signal), nri.run(stop.signal)]);
  undo.defer(async () => {
    stop.abort();
    await running;
  });

  const { statusSocket: socketPath, listen } = options;
  if (listen !== undefined) {
    const server = await metrics.serve(listen, { stateDirectory, logger });
    undo.defer(() => server.close());
    options.onServing?.(server.url);
  }

  // 5. What vhostuserctl asks, also while the runtime is away; claims are served without it too.
  if (socketPath !== undefined) {
    const source = { node, records, interfaces, isConnected, clock, logger, socketPath };
    const server = await serveDriverStatus(source).catch(
      (err: unknown) => void logger.error({ err }, "the driver's status cannot be served"),
    );
    undo.defer(() => server?.close());
  }

  // 6. kubelet gives it claims only once the runtime has sent all sandboxes, and sends every new one.
  while (!isConnected()) {
    await clock.sleep(SYNCHRONIZED_MS, signal).catch(() => undefined);
    if (signal.aborted) return;
  }
  const offer = { config, sysfs, pluginDirectory };
  let devices = await readDevices(offer);
  const context = {
    ...{ node, api, interfaces, places, isConnected, clock, logger },
    allowed: config.allowedPlugins,
    interfaceOf: (device: string) => offeredInterfaces(offer).get(device),
    refused: (claim: InterfaceRecord["claim"], devices: Parameters<typeof status.report>[0]["devices"]) => {
      // kubelet prepares claims of running pods again when it restarts: what is there is no worse for it.
      const isMade = records.list().some((one) => one.claim.uid === claim.uid && one.attachments.length > 0);
      if (!isMade) status.report({ claim, devices });
    },
  };
  plugin = startDraPlugin({
    ...{ driver: CNI_DRIVER, registryDirectory: kubelet.pluginsRegistry, podUid: options.podUid },
    pluginDirectory: `${kubelet.plugins}/${CNI_DRIVER}`,
    calls: {
      prepare: metrics.claims("prepare", (claim: ClaimReference, until: AbortSignal) =>
        prepareClaim(claim, context, until),
      ),
      unprepare: metrics.claims("unprepare", (claim: ClaimReference) => unprepareClaim(claim, context)),
    },
    health: () => devices.map(({ name }) => ({ pool: node, device: name, healthy: true })),
    ...{ clock, logger },
  });
  undo.defer(() => plugin?.close());

  // 7. What the scheduler may give out.
  const slices = new SlicePublisher({
    ...{ api, node, driver: CNI_DRIVER, clock, logger },
    devices: (isShared) => (isShared ? devices : []),
  });
  undo.defer(() => slices.close());
  logger.info({ devices: devices.map(({ name }) => name) }, "serving ResourceClaims by CNI plugins");
  preferLessMemory();
  while (!signal.aborted) {
    await clock.sleep(INTERFACES_MS, signal).catch(() => undefined);
    try {
      const now = await readDevices(offer);
      if (isDeepStrictEqual(now, devices)) continue;
      devices = now;
      slices.changed();
      plugin.healthChanged();
    } catch (error) {
      logger.warn({ err: toFailure(error) }, "the host's interfaces cannot be read");
    }
  }
  logger.info({ signal: String(signal.reason) }, "stopping; pods keep their interfaces");
}
