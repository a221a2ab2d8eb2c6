import { switchProgram } from "../../dataplane/switch-kind.ts";
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
          return problem(`pool ${pool.name}: ${readiness.reason}`, switchProgram(pool.dataplane).whereToLook);
        }
        const version = await dataplane.version(signal).catch(() => type);
        return fine(`pool ${pool.name}: bridge ${bridge} of ${version}`);
      }),
    ),
};
