import { fine, type NodeCheck, problem } from "./node-check.ts";

/** Whether each pool's switch answers and its bridge can take ports: DPDK on, the userspace datapath. */
export const switchCheck: NodeCheck = {
  name: "switch",
  check: ({ switches }, signal) =>
    Promise.all(
      switches.map(async ({ pool, dataplane }) => {
        const { bridge, type } = pool.dataplane;
        const readiness = await dataplane.probe(bridge, signal);
        if (!readiness.ready) {
          return problem(
            `pool ${pool.name}: ${readiness.reason}`,
            type === "vpp"
              ? "systemctl status vpp, or the log of its pod"
              : "systemctl status openvswitch-switch, or the log of its pod; ovs-vswitchd.log tells why DPDK is off",
          );
        }
        const version = await dataplane.version(signal).catch(() => type);
        return fine(`pool ${pool.name}: bridge ${bridge} of ${version}`);
      }),
    ),
};
