import { dirname, join } from "node:path";
import { Failure } from "../../failure/failure.ts";
import { checkUnixPath } from "../../names/unix-path.ts";

/**
 * Open vSwitch's run directory by its database's socket: the same directory, unless the switch was started with
 * other options.
 */
export function defaultRunDirectory(databaseSocket: string): string {
  return dirname(databaseSocket);
}

/**
 * The management socket of a bridge, which ovs-vswitchd makes for every bridge (ovs-vswitchd.conf.db(5), Controller).
 * @throws Failure invalid-request for a name that no bridge has, path-too-long
 */
export function bridgeSocket(runDirectory: string, bridge: string): string {
  if (bridge === "" || bridge.includes("/")) {
    throw new Failure({
      code: "invalid-request",
      what: `${JSON.stringify(bridge)} is not the name of a bridge`,
      fix: "Open vSwitch takes no slash in the name of a bridge",
    });
  }
  return checkUnixPath(join(runDirectory, `${bridge}.mgmt`), `OpenFlow socket of bridge ${bridge}`);
}
