import { type ChildProgram, startChildProgram } from "../lab/child-program.ts";
import { hasTestpmd, TESTPMD_PATH } from "../machine/testpmd-program.ts";

/**
 * Starts DPDK's testpmd as the guest of a vhost-user port: it serves the socket, as QEMU does, and runs one queue
 * pair, sending nothing. Its memory is 64 MiB of hugepages that the switch maps.
 */
export function startTestpmd(options: { readonly socketPath: string }): Promise<ChildProgram> {
  const port = `net_virtio_user0,path=${options.socketPath},server=1,queues=1`;
  return startChildProgram({
    command: hasTestpmd() ? TESTPMD_PATH : "dpdk-testpmd",
    args: [
      ...["-l", "0,1", "--no-pci", "--in-memory", "--single-file-segments", "--no-telemetry", "-m", "64"],
      ...["--vdev", port, "--", "--total-num-mbufs=2048", "--forward-mode=rxonly", "--auto-start"],
      "--stats-period=3600", // without it testpmd wants a terminal
    ],
    fix: "apt-get install --no-install-recommends dpdk-dev librte-net-virtio23 librte-mempool-ring23",
  });
}
