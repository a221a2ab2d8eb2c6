import { dataplaneContract } from "../contract/dataplane.ts";
import { startVpp, vppName } from "./vpp-under-test.ts";

dataplaneContract(vppName, startVpp);
