/** VPP's names of the errors that our requests can get (vnet/error.h); others are told by number. */
const NAMES: ReadonlyMap<number, string> = new Map([
  [-1, "unspecified error"],
  [-2, "invalid sw_if_index"],
  [-6, "no such entry"],
  [-7, "invalid value"],
  [-11, "system call failed: the socket cannot be made"],
  [-12, "system call failed: the socket cannot be bound"],
  [-13, "system call failed: the socket cannot listen"],
  [-55, "invalid VLAN"],
  [-56, "VLAN exists already"],
  [-73, "invalid argument"],
  [-79, "interface exists already"],
  [-81, "value exists already"],
  [-119, "bridge domain exists already"],
  [-120, "bridge domain has interfaces"],
  [-121, "bridge domain cannot be changed"],
  [-122, "bridge domain's number is too large"],
]);

/** VPP's answer when a vhost-user interface has the socket already. */
export const INTERFACE_EXISTS = -79;
/** VPP's answer when the bridge domain exists already. */
export const BRIDGE_DOMAIN_EXISTS = -119;

/** What a negative `retval` means, with its number. */
export function describeRetval(retval: number): string {
  const name = NAMES.get(retval);
  return name === undefined ? `error ${retval}` : `${name} (${retval})`;
}
