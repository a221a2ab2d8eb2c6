import type { CniResult, ResultInterface } from "./check-result.ts";

/** One element of the pod annotation `k8s.v1.cni.cncf.io/network-status`. */
export interface NetworkStatus {
  /** `<namespace>/<name>` of the definition. */
  readonly name: string;
  readonly interface?: string;
  readonly ips?: readonly string[];
  readonly mac?: string;
  readonly mtu?: number;
  readonly default?: boolean;
  readonly dns: Readonly<Record<string, unknown>>;
  readonly "device-info"?: object;
  readonly gateway?: readonly string[];
}

/**
 * The status elements of one attachment: one when the result has exactly one interface, one per interface in the
 * sandbox when it has more, none at all when it has none.
 */
export function networkStatus(
  name: string,
  result: CniResult,
  deviceInfo: object | undefined,
): readonly NetworkStatus[] {
  const interfaces = result.interfaces ?? [];
  const shown = interfaces.length === 1 ? interfaces : interfaces.filter(isInSandbox);
  const gateways = (result.routes ?? []).flatMap(({ dst, gw }) =>
    isDefault(dst) && gw !== undefined ? [gw] : [],
  );
  return shown.map((shownInterface) => {
    const ips = (result.ips ?? [])
      .filter((ip) => interfaces.length === 1 || interfaces[ip.interface ?? -1] === shownInterface)
      .map(({ address }) => address.replace(/\/.*$/, ""));
    return {
      name,
      ...(isInSandbox(shownInterface) ? identity(shownInterface, result.cniVersion) : {}),
      ...(ips.length === 0 ? {} : { ips }),
      dns: result.dns ?? {},
      ...(deviceInfo === undefined ? {} : { "device-info": deviceInfo }),
      ...(gateways.length === 0 ? {} : { gateway: gateways }),
    };
  });
}

function identity({ name, mac, mtu }: ResultInterface, cniVersion: string): Partial<NetworkStatus> {
  return {
    interface: name,
    ...(mac === undefined ? {} : { mac }),
    ...(mtu === undefined || cniVersion !== "1.1.0" ? {} : { mtu }),
  };
}

function isInSandbox({ sandbox }: ResultInterface): boolean {
  return sandbox !== undefined && sandbox !== "";
}

function isDefault(destination: string): boolean {
  return destination === "0.0.0.0/0" || destination === "::/0";
}
