import type { Delegate } from "./delegate.ts";
import type { Ipam } from "./ipam.ts";
import { PluginIpam } from "./plugin-ipam.ts";

/** The IPAM that `ipam.type` of a network names: the only place that knows the kinds of IPAMs. */
export function openIpam(type: string, delegate: Delegate): Ipam {
  return new PluginIpam(type, delegate);
}
