import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { GuestKernel } from "../machine/guest-kernel.ts";
import { runProgram } from "../machine/run-program.ts";

/** Files that QEMU boots directly. */
export interface GuestImage {
  readonly kernel: string;
  readonly initrd: string;
  /** Kernel command line: the serial console, quiet. */
  readonly cmdline: string;
}

/** virtio for PCI and its network driver, in the order in which they must be loaded. */
const MODULES = [
  "drivers/virtio/virtio_ring",
  "drivers/virtio/virtio",
  "drivers/virtio/virtio_pci_modern_dev",
  "drivers/virtio/virtio_pci_legacy_dev",
  "drivers/virtio/virtio_pci",
  "net/core/failover",
  "drivers/net/net_failover",
  "drivers/net/virtio_net",
];
const SOURCES = ["init.sh", "answer.sh", "udhcpc.sh", "probe.c"];
/** Kernel command line: the serial console, quiet. */
export const GUEST_CMDLINE = "console=ttyS0 quiet loglevel=1 panic=-1";

/**
 * Builds the initramfs of busybox, the virtio modules and the probe, or finds the one of the same sources. It is
 * beside the kernel in the cache; it is built elsewhere and renamed, so a killed build leaves no half image.
 */
export async function buildGuestImage(kernel: GuestKernel): Promise<GuestImage> {
  const sources = await Promise.all(SOURCES.map((name) => readFile(sourcePath(name))));
  const hash = createHash("sha256");
  for (const part of [kernel.version, MODULES.join(), ...sources]) hash.update(part);
  const initrd = join(kernel.directory, `initrd-${hash.digest("hex").slice(0, 12)}.cpio`);
  if (!existsSync(initrd)) await build(kernel, initrd);
  return { kernel: kernel.image, initrd, cmdline: GUEST_CMDLINE };
}

async function build(kernel: GuestKernel, initrd: string): Promise<void> {
  const root = await mkdtemp(join(kernel.directory, "build-"));
  try {
    await mkdir(join(root, "bin"));
    await mkdir(join(root, "dev"));
    await mkdir(join(root, "modules"));
    await copyFile("/bin/busybox", join(root, "bin/busybox"));
    await copyFile(sourcePath("answer.sh"), join(root, "answer.sh"));
    await writeFile(join(root, "udhcpc.sh"), await readFile(sourcePath("udhcpc.sh")), { mode: 0o755 });
    await writeFile(join(root, "init"), await readFile(sourcePath("init.sh")), { mode: 0o755 });
    for (const module of MODULES) {
      const name = basename(module);
      await copyFile(join(kernel.modules, `${module}.ko`), join(root, "modules", `${name}.ko`));
    }
    const order = MODULES.map((module) => `${basename(module)}\n`).join("");
    await writeFile(join(root, "modules/order"), order);
    await runProgram("musl-gcc", ["-static", "-O2", "-o", join(root, "bin/probe"), sourcePath("probe.c")]);
    // The kernel opens /dev/console for the first process before devtmpfs is there.
    await runProgram("mknod", [join(root, "dev/console"), "c", "5", "1"]);
    const archive = `${root}.cpio`;
    await runProgram("sh", ["-c", 'cd "$0" && find . | cpio --quiet -o -H newc > "$1"', root, archive]);
    await rename(archive, initrd);
  } finally {
    await rm(root, { recursive: true, force: true });
  }
}

function sourcePath(name: string): string {
  return fileURLToPath(new URL(name, import.meta.url));
}
