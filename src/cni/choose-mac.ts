import { Failure } from "../failure/failure.ts";
import { deriveMacAddress, isUnicastMac, parseMacAddress } from "../names/mac-address.ts";
import type { AttachmentRequest } from "./request.ts";

/**
 * The interface's MAC: runtimeConfig.mac, CNI_ARGS, args.cni.mac, the network's own `mac`, in that order
 * (CNI conventions); else one derived from pod and interface, which stays the same over restarts of the pod.
 */
export function chooseMac(request: AttachmentRequest): string {
  const { config } = request;
  const asked: readonly (readonly [string, string | undefined])[] = [
    ["runtimeConfig.mac", config.runtimeConfig?.mac],
    ["CNI_ARGS MAC", request.args["MAC"]],
    ["args.cni.mac", config.args?.cni?.mac],
    ["mac", config.mac],
  ];
  for (const [where, text] of asked) {
    if (text === undefined || text === "") continue;
    const mac = parseMacAddress(text);
    if (mac === undefined || !isUnicastMac(mac)) {
      throw new Failure({
        code: "invalid-network-config",
        what: `MAC address ${JSON.stringify(text)} is not a unicast address of six bytes`,
        where,
        fix: "write it as 02:00:00:00:00:01",
      });
    }
    return mac;
  }
  const pod = request.podName === "" ? request.containerId : `${request.podNamespace}/${request.podName}`;
  return deriveMacAddress(`${pod}/${request.interfaceName}`);
}
