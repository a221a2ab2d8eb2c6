import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Finding, fine, type HostCheck, problem, skipped, warning } from "./node-check.ts";

/** Guests' memory and that of the switch is in hugepages, or nothing can be shared fast. */
export const hugepagesCheck: HostCheck = {
  name: "hugepages",
  check: async ({ sys }) => {
    const top = join(sys, "kernel/mm/hugepages");
    const sizes = await readdir(top).catch(() => undefined);
    if (sizes === undefined) return [skipped(`${top} is not there`)];
    const pages = await Promise.all(
      sizes.sort().map(async (name) => {
        const read = async (file: string) => Number(await readFile(join(top, name, file), "utf8"));
        const size = name.replace(/^hugepages-/, "");
        return { size, total: await read("nr_hugepages"), free: await read("free_hugepages") };
      }),
    );
    const reserved = pages.filter(({ total }) => total > 0);
    if (reserved.length === 0) {
      return [
        problem(
          "no hugepages are reserved",
          "the switch's DPDK needs some, and VMs that ask for them: hugepagesz=1G hugepages=N on the kernel's command line, or vm.nr_hugepages",
        ),
      ];
    }
    const text = reserved.map(({ size, total, free }) => `${size}: ${free} of ${total} free`).join(", ");
    return reserved.some(({ free }) => free > 0)
      ? [fine(text)]
      : [warning(text, "a VM that asks for hugepages will not start; reserve more")];
  },
};

/** nosymfollow came with this kernel. */
const OLDEST_KERNEL = [5, 10] as const;

/** What programs and kernel there are. */
export const versionsCheck: HostCheck = {
  name: "versions",
  check: async ({ kernel, version }) => {
    const [major = 0, minor = 0] = kernel.split(/[.-]/).map(Number);
    const [oldMajor, oldMinor] = OLDEST_KERNEL;
    const isOld = major < oldMajor || (major === oldMajor && minor < oldMinor);
    return [
      fine(`kube-vhostuser ${version}, Node ${process.versions.node}`),
      isOld
        ? problem(
            `Linux ${kernel}`,
            `mount flag nosymfollow, which keeps pods apart, needs ${OLDEST_KERNEL.join(".")}`,
          )
        : fine(`Linux ${kernel}`),
    ];
  },
};

/** Who runs this program: most of what it looks at is root's. */
export const userCheck: HostCheck = {
  name: "user",
  check: async ({ uid }): Promise<readonly Finding[]> =>
    uid === 0
      ? [fine("root")]
      : [warning(`uid ${uid}: what is root's alone cannot be looked at`, "run vhostuserctl doctor as root")],
};
