import { describeThrown, Failure } from "../../failure/failure.ts";
import { nodeStatusShape } from "../../status/shape.ts";
import { statusSocket } from "../../status/status-socket.ts";
import { askDaemon } from "../daemon-client.ts";
import { age } from "../terminal/units.ts";
import { fine, type NodeCheck, problem, warning } from "./node-check.ts";

/** A pass may take a minute, and a switch that is away makes some fail. */
const OLD_PASS_MS = 10 * 60_000;

/** The daemon itself; everything else is checked without it. */
export const daemonCheck: NodeCheck = {
  name: "daemon",
  check: async ({ config, host }) => {
    const socket = host.places.socket ?? statusSocket(config);
    const status = await askDaemon(socket, "/v1/node", nodeStatusShape).catch((error: unknown) => error);
    if (!isStatus(status)) {
      return [
        problem(
          status instanceof Failure ? `${status.what} (${socket})` : describeThrown(status),
          "kubectl -n kube-vhostuser get pods -o wide, and the log of this node's pod",
        ),
      ];
    }
    const { version, at, startedAt, lastPassAt, resources, node } = status;
    const missing = resources.filter(({ registered }) => !registered).map(({ name }) => name);
    return [
      fine(`release ${version}, up ${age(at - startedAt)}`),
      ...(node === config.node
        ? []
        : [
            warning(
              `it calls this node ${node}, the configuration ${config.node}`,
              "set NODE_NAME for this program",
            ),
          ]),
      ...(version === host.version
        ? []
        : [warning(`this program is of release ${host.version}`, "run the one of the daemon's own image")]),
      ...(missing.length === 0
        ? [fine("registered with kubelet")]
        : [
            problem(
              `not registered with kubelet: ${missing.join(", ")}`,
              "the daemon tries again and again; its log tells what kubelet says",
            ),
          ]),
      ...(at - (lastPassAt ?? startedAt) > OLD_PASS_MS
        ? [
            problem(
              `the reconciler has not gone through for ${age(at - (lastPassAt ?? startedAt))}`,
              "nothing is repaired or reclaimed; the daemon's log names the stage that is left out",
            ),
          ]
        : []),
    ];
  },
};

function isStatus(value: unknown): value is ReturnType<typeof nodeStatusShape.parse> {
  return typeof value === "object" && value !== null && !(value instanceof Error);
}
