import { benchSuite, type Suite, suiteWithoutSwitch } from "./bench-suite.ts";
import { claimsSuite, openClaimsRig } from "./suites/claims.ts";
import { cniSuite, openCniRig } from "./suites/cni.ts";
import { cniClaimsSuite, openCniClaimsRig } from "./suites/cni-claims.ts";
import { devicePluginSuite, openDevicePluginRig } from "./suites/device-plugin.ts";
import { draSuite, openDraRig } from "./suites/dra.ts";
import { ipamSuite, openIpamRig } from "./suites/ipam.ts";
import { migrationSuite, openMigrationRig } from "./suites/migration.ts";
import { openRecoveryRig, recoverySuite } from "./suites/recovery.ts";
import { openRemovalRig, removalSuite } from "./suites/removal.ts";
import { openSidecarRig, sidecarSuite } from "./suites/sidecar.ts";
import { openVppRig, vppSuite } from "./suites/vpp.ts";

/** Every suite, in the order in which they run. */
export const SUITES: readonly Suite[] = [
  benchSuite(cniSuite, openCniRig),
  benchSuite(devicePluginSuite, openDevicePluginRig),
  benchSuite(draSuite, openDraRig),
  suiteWithoutSwitch(ipamSuite, openIpamRig),
  suiteWithoutSwitch(claimsSuite, openClaimsRig),
  suiteWithoutSwitch(cniClaimsSuite, openCniClaimsRig),
  benchSuite(sidecarSuite, openSidecarRig),
  suiteWithoutSwitch(migrationSuite, openMigrationRig),
  benchSuite(vppSuite, openVppRig),
  benchSuite(recoverySuite, openRecoveryRig),
  suiteWithoutSwitch(removalSuite, openRemovalRig),
];
