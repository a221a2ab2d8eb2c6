import { describeThrown, Failure } from "../../src/failure/failure.ts";
import { openApt } from "./apt.ts";
import { unpackGuestKernel } from "./guest-kernel.ts";
import type { LabRun } from "./lab-run.ts";
import { unpackLibvirtDomains } from "./libvirt-domains.ts";
import {
  describeMissing,
  hasAllPackages,
  installAdvice,
  type MissingParts,
  missingParts,
} from "./missing-parts.ts";
import { withoutServices } from "./no-services.ts";
import { type Purpose, UNPACKED_PACKAGES } from "./package-list.ts";
import { PROMTOOL, unpackProgram } from "./packaged-program.ts";
import { unpackTestpmd } from "./testpmd-program.ts";

/**
 * Says what keeps the lab from running here that no package can give. Call it before a run is opened: a run itself
 * needs root.
 * @throws Failure part-missing with everything that is missing, packages too
 */
export async function requireMachine(): Promise<void> {
  const missing = await missingParts();
  if (missing.conditions.length > 0) throw notThere(missing);
}

/**
 * Makes sure that all packages for a purpose are there, at once where they are. On a fresh Debian 12 it installs them, from
 * backports only what must be newer, starts no service and leaves the machine's apt configuration alone.
 * @throws Failure part-missing listing every missing part and the command that installs them
 */
export async function ensurePackages(run: LabRun, purpose: Purpose = "tests"): Promise<void> {
  const missing = await missingParts(purpose);
  if (missing.conditions.length > 0) throw notThere(missing);
  if (hasAllPackages(missing)) return;
  run.progress(`missing, and to stay on this machine: ${describeMissing(missing)}`);
  try {
    await withoutServices(run, () => install(run, missing));
  } catch (cause) {
    if (run.cleanup.signal.aborted) throw cause;
    throw notThere(await missingParts(purpose), cause);
  }
  const still = await missingParts(purpose);
  if (!hasAllPackages(still)) throw notThere(still);
}

async function install(run: LabRun, missing: MissingParts): Promise<void> {
  const apt = await openApt(run);
  await apt.repair();
  await apt.install(Object.values(missing.packages).flat());
  if (missing.unpacked.includes(UNPACKED_PACKAGES.guestKernel)) {
    await unpackGuestKernel(await apt.download(UNPACKED_PACKAGES.guestKernel));
  }
  if (missing.unpacked.includes(UNPACKED_PACKAGES.testpmd)) {
    await unpackTestpmd(await apt.download(UNPACKED_PACKAGES.testpmd));
  }
  if (missing.unpacked.includes(UNPACKED_PACKAGES.promtool)) {
    await unpackProgram(PROMTOOL, await apt.download(UNPACKED_PACKAGES.promtool));
  }
  if (missing.unpacked.includes(UNPACKED_PACKAGES.libvirtDomains)) {
    await unpackLibvirtDomains(await apt.downloadSource(UNPACKED_PACKAGES.libvirtDomains));
  }
}

function notThere(missing: MissingParts, cause?: unknown): Failure {
  const why = cause === undefined ? "" : ` (${describeThrown(cause)})`;
  return new Failure({
    code: "part-missing",
    what: `this machine lacks: ${describeMissing(missing)}${why}`,
    fix: installAdvice(missing),
    cause,
  });
}
