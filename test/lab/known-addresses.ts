import type { ClaimedVm } from "../cluster/claimed-vm.ts";
import type { VmPod } from "../cluster/vm-pod.ts";
import type { Guest } from "../guest/guest.ts";
import type { OvsDpdk } from "./ovs-dpdk.ts";

/** The IPv4 addresses from which port security lets a port send, by the flows that the switch has. */
export async function allowedAddresses(
  ovs: OvsDpdk,
  bridge: string,
  port: string,
): Promise<readonly string[]> {
  const number = (await ovs.vsctl("get", "Interface", port, "ofport")).trim();
  const flows = await ovs.ofctl(bridge, "dump-flows", `in_port=${number}`);
  const found = [...flows.matchAll(/\b(?:arp_spa|nw_src)=([\d.]+)/g)].map(([, address = ""]) => address);
  // From which a guest asks whether an address is free.
  return [...new Set(found)].filter((address) => address !== "0.0.0.0");
}

/** What each part that knows a claimed VM's addresses says, and its MAC. */
export async function knownAddresses(vm: ClaimedVm, pod: VmPod, ovs: OvsDpdk, bridge: string) {
  const [status] = pod.networkStatus;
  const { name } = await pod.guest.interfaceOf(pod.mac);
  const shown = await pod.guest.run(`ip -o -4 address show dev ${name}`);
  return {
    claim: vm.ips,
    networkStatus: status?.ips,
    portSecurity: await allowedAddresses(ovs, bridge, pod.portName),
    guest: /inet (\S+)/.exec(shown)?.[1],
    mac: status?.mac,
    deviceInfo: status?.["device-info"],
  };
}

/** Whether another guest answers within a second to a ping that a guest sends from an address, which it gives itself for that long. */
export async function canSendFrom(
  guest: Guest,
  mac: string,
  address: string,
  peer: string,
): Promise<boolean> {
  const { name } = await guest.interfaceOf(mac);
  const ping = `ping -q -c 1 -W 1 -I ${address} ${peer}`;
  const text = await guest.run(
    `ip address add ${address}/32 dev ${name}; ${ping}; ip address del ${address}/32 dev ${name}`,
  );
  const received = Number(/(\d+) packets received/.exec(text)?.[1] ?? Number.NaN);
  if (Number.isNaN(received)) throw new Error(text);
  return received > 0;
}
