import { dataplaneContract } from "../contract/dataplane.ts";
import { startOvsRig } from "./ovs-rig.ts";

dataplaneContract("OVS-DPDK", () => startOvsRig());
