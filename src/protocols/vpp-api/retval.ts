/** VPP's names of the errors that our requests can get (vnet/error.h); others have their number only. */
const NAMES: ReadonlyMap<number, string> = new Map([
  [-1, "unspecified error"],
  [-2, "invalid sw_if_index"],
  [-3, "no such table"],
  [-6, "no such entry"],
  [-7, "invalid value"],
  [-11, "system call failed: the socket cannot be made"],
  [-12, "system call failed: the socket cannot be bound"],
  [-13, "system call failed: the socket cannot listen"],
  [-54, "no matching interface"],
  [-55, "invalid VLAN"],
  [-56, "VLAN exists already"],
  [-73, "invalid argument"],
  [-74, "unexpected interface state"],
  [-79, "interface exists already"],
  [-81, "value exists already"],
  [-105, "address in use"],
  [-114, "address found for interface"],
  [-119, "bridge domain exists already"],
  [-120, "bridge domain has interfaces"],
  [-121, "bridge domain cannot be changed"],
  [-122, "bridge domain's number is too large"],
  [-127, "duplicate interface address"],
]);

/** VPP's answer to who asks for events a second time, which it sends already. */
export const EVENTS_WANTED = -31;
/** VPP's answer when a vhost-user interface has the socket already. */
export const INTERFACE_EXISTS = -79;
/** VPP's answer when the bridge domain exists already. */
export const BRIDGE_DOMAIN_EXISTS = -119;

/** VPP's answers to an address of which an interface of the same table has the network: IPv4, IPv6. */
export const ADDRESS_TAKEN: readonly number[] = [-105, -127];

/** What a negative `retval` means, with its number. */
export function describeRetval(retval: number): string {
  const name = NAMES.get(retval);
  return name === undefined ? `error ${retval}` : `${name} (${retval})`;
}
