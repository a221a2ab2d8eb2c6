import { buildGuestImage } from "../guest/image.ts";
import { findGuestKernel } from "../machine/guest-kernel.ts";
import { writeImage } from "./local-image.ts";

/** The environment variable with the name of the image in a registry; else the nodes have it under a name of their own. */
export const GUEST_IMAGE_VARIABLE = "KUBEVIRT_GUEST_IMAGE";
/** The container image that VMs boot from. */
export const GUEST_IMAGE = process.env[GUEST_IMAGE_VARIABLE] ?? "localhost/lab-guest:1";
/** Paths of kernel and initial file system in it. */
export const KERNEL_BOOT = { kernelPath: "/boot/kernel", initrdPath: "/boot/initrd" };

/** Writes an archive of it, with the guest of test/guest, below a directory, and gives its path. */
export async function writeGuestImage(directory: string): Promise<string> {
  const kernel = await findGuestKernel();
  if (kernel === undefined) throw new Error("the guest kernel was not unpacked");
  const { kernel: image, initrd } = await buildGuestImage(kernel);
  const files = { [KERNEL_BOOT.kernelPath.slice(1)]: image, [KERNEL_BOOT.initrdPath.slice(1)]: initrd };
  return writeImage(directory, { name: GUEST_IMAGE, files, entrypoint: ["/not-run"] });
}
