import type { GuestImage } from "../guest/image.ts";

/** One vhost-user interface of a hand-written domain. */
export interface PartsDomain {
  readonly name: string;
  readonly image: GuestImage;
  readonly mac: string;
  /** vhost-user socket as QEMU sees it; QEMU is the server. */
  readonly socketPath: string;
  /** Console socket as QEMU sees it. */
  readonly consolePath: string;
  readonly memoryMiB?: number;
  readonly vcpus?: number;
  /** Take the memory from hugepages of this size; memfd either way. */
  readonly hugepageKiB?: number;
  /** An ethernet interface on this tap device, as the masquerade binding's. */
  readonly tap?: string;
}

/** A domain written by hand, as near to KubeVirt's as TCG allows: what the parts must do without our sidecar. */
export function partsDomainXml(domain: PartsDomain): string {
  const memoryMiB = domain.memoryMiB ?? 256;
  const vcpus = domain.vcpus ?? 1;
  const hugepages =
    domain.hugepageKiB === undefined
      ? ""
      : `<hugepages><page size="${domain.hugepageKiB}" unit="KiB"/></hugepages>`;
  const tap =
    domain.tap === undefined
      ? ""
      : `<interface type="ethernet">
      <target dev="${domain.tap}" managed="no"/>
      <model type="virtio-non-transitional"/>
      <alias name="ua-default"/>
    </interface>`;
  return `<domain type="qemu">
  <name>${domain.name}</name>
  <memory unit="MiB">${memoryMiB}</memory>
  <memoryBacking>${hugepages}<source type="memfd"/><access mode="shared"/></memoryBacking>
  <vcpu placement="static">${vcpus}</vcpu>
  <os>
    <type arch="x86_64" machine="q35">hvm</type>
    <kernel>${domain.image.kernel}</kernel>
    <initrd>${domain.image.initrd}</initrd>
    <cmdline>${domain.image.cmdline}</cmdline>
  </os>
  <features><acpi/></features>
  <cpu mode="custom" match="exact" check="none">
    <model fallback="forbid">qemu64</model>
    <numa><cell id="0" cpus="0-${vcpus - 1}" memory="${memoryMiB}" unit="MiB" memAccess="shared"/></numa>
  </cpu>
  <on_reboot>destroy</on_reboot>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type="usb" model="none"/>
    ${tap}
    <interface type="vhostuser">
      <mac address="${domain.mac}"/>
      <source type="unix" path="${domain.socketPath}" mode="server"/>
      <model type="virtio-non-transitional"/>
      <alias name="ua-net1"/>
    </interface>
    <serial type="unix">
      <source mode="bind" path="${domain.consolePath}"/>
      <target port="0"/>
    </serial>
    <memballoon model="none"/>
  </devices>
</domain>
`;
}
