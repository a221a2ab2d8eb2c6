import { repairLeftovers } from "./leftovers.ts";

// The guard of a lab run becomes this program when the run's process is gone and its journal is still there.
await repairLeftovers({ ...(process.argv[2] === undefined ? {} : { journalDirectory: process.argv[2] }) });
