// What vhostuserctl asks of the driver, and has it do.
import type { Logger } from "../logging/logger.ts";
import { present } from "../names/present.ts";
import { type HttpServer, type Page, serveHttp, text } from "../observe/http-server.ts";
import type { RecordStore } from "../records/record-store.ts";
import type {
  CheckedInterfaces,
  ClaimInterface,
  ClaimInterfaces,
  GivenUp,
} from "../status/claim-interfaces-shape.ts";
import type { Clock } from "../sync/clock.ts";
import { type InterfaceRecord, interfaceKey } from "./interface-record.ts";
import type { Interfaces } from "./interfaces.ts";
import type { FailingDel } from "./pending-dels.ts";
import { partsOf } from "./report-interface.ts";

/** Of a node's interfaces. */
const SHOWN_MAX = 1_000;

/** What is served. */
export interface StatusSource {
  /** Name of the node. */
  readonly node: string;
  readonly records: Pick<RecordStore<InterfaceRecord>, "list">;
  readonly interfaces: Pick<Interfaces, "dels" | "check">;
  /** Whether the driver hears of every sandbox that starts. */
  readonly isConnected: () => boolean;
  readonly clock: Clock;
}

/**
 * Serves JSON over HTTP on a unix socket that only root can connect to: the interfaces of this node, CHECK of those of a pod,
 * and giving up their DELs.
 * @throws Failure `invalid-config` when the socket cannot be made
 */
export function serveDriverStatus(
  source: StatusSource & { readonly socketPath: string; readonly logger: Logger },
): Promise<HttpServer> {
  const { socketPath, logger } = source;
  const json = (value: object): Page => ({
    ...{ status: 200, contentType: "application/json" },
    body: `${JSON.stringify({ node: source.node, at: source.clock.now(), ...value })}\n`,
  });
  return serveHttp({
    ...{ socketPath, socketOption: "--socket", logger },
    pages: new Map([["/v1/interfaces", async (query) => json(listInterfaces(query, source))]]),
    actions: new Map([
      ["/v1/check", async (query) => json(await check(query, source))],
      [
        "/v1/give-up",
        async (query) =>
          ["namespace", "pod", "interface"].every((key) => query.has(key))
            ? json(await giveUp(query, source))
            : text(400, "namespace, pod and interface are required\n"),
      ],
    ]),
  });
}

function listInterfaces(query: URLSearchParams, source: StatusSource): Omit<ClaimInterfaces, "node" | "at"> {
  const found = source.records.list().filter(isAsked(query));
  const failing = source.interfaces.dels.failing();
  const interfaces = found.slice(0, SHOWN_MAX).map((record) => describe(record, failing));
  return { isConnected: source.isConnected(), interfaces, leftOut: found.length - interfaces.length };
}

async function check(
  query: URLSearchParams,
  { interfaces }: StatusSource,
): Promise<Pick<CheckedInterfaces, "interfaces">> {
  const failing = interfaces.dels.failing();
  const checked = await interfaces.check(isAsked(query));
  return {
    interfaces: checked.map(({ record, outcome, reason }) =>
      present({ ...describe(record, failing), outcome, reason }),
    ),
  };
}

async function giveUp(
  query: URLSearchParams,
  { interfaces }: StatusSource,
): Promise<Pick<GivenUp, "interfaces">> {
  const givenUp = await interfaces.dels.giveUp(isAsked(query));
  return {
    interfaces: givenUp.map((one) => describe({ ...one.record, attachments: [...one.attachments] }, givenUp)),
  };
}

function isAsked(query: URLSearchParams): (record: InterfaceRecord) => boolean {
  const [namespace, pod, ifName] = ["namespace", "pod", "interface"].map((key) => query.get(key));
  return (record) =>
    (namespace === null || record.pod.namespace === namespace) &&
    (pod === null || record.pod.name === pod) &&
    (ifName === null || record.ifName === ifName);
}

function describe(record: InterfaceRecord, failing: readonly FailingDel[]): ClaimInterface {
  const { pod, claim, request, ifName, network, attachments } = record;
  const del = failing.find((one) => interfaceKey(one.record) === interfaceKey(record));
  return present({
    ...{ pod, claim: claim.name, request, interface: ifName, network: network.name },
    plugins: network.plugins.map(({ type }) => type),
    sandboxes: attachments.map(({ sandbox, netns, state, since, result = {} }) => ({
      ...{ sandbox, netns, state, addedAt: since, ...partsOf(result) },
    })),
    failingDel: del && { message: del.failure.message, sinceAt: del.since, isStuck: del.isStuck },
  });
}
