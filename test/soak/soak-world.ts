import { join } from "node:path";
import { settledAll } from "../churn/settled-all.ts";
import { SharedSwitch } from "../churn/shared-switch.ts";
import { buildGuestImage } from "../guest/image.ts";
import { type OvsDpdk, startOvsDpdk } from "../lab/ovs-dpdk.ts";
import { findGuestKernel, type GuestKernel } from "../machine/guest-kernel.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { ClaimedLife } from "./claimed-life.ts";
import { type Site, startSite } from "./site.ts";
import { buildClockSkew } from "./skewed-clock.ts";
import { SoakGuest } from "./soak-guest.ts";

const BRIDGE = "br-soak";
const NODES = ["a", "b"] as const;
/** Emulated, they share two cores with the switch. */
const GUESTS = 3;

/** Two nodes on one switch, and guests on them. */
export interface SoakWorld {
  readonly run: LabRun;
  readonly ovs: OvsDpdk;
  readonly shared: SharedSwitch;
  readonly sites: readonly Site[];
  readonly guests: readonly SoakGuest[];
  readonly claimed: ClaimedLife;
  /** Calm: nothing is wrong, so everything must succeed at once. */
  readonly weather: { isCalm: boolean };
}

/** Starts it all; it goes with the run. */
export async function startSoakWorld(run: LabRun): Promise<SoakWorld> {
  await buildClockSkew(run);
  const ovs = await startOvsDpdk(run, { directory: join(run.directory, "ovs"), bridges: [BRIDGE] });
  const shared = new SharedSwitch(ovs, BRIDGE);
  const image = await buildGuestImage(await guestKernel());
  const claimed = await ClaimedLife.open(run, image, NODES);
  const sites: Site[] = [];
  for (const name of NODES) {
    const { databaseSocket } = ovs;
    sites.push(await startSite(run, { name, bridge: BRIDGE, databaseSocket, ipam: claimed.api }));
  }
  const weather = { isCalm: true };
  const guests = Array.from({ length: GUESTS }, (_, index) => {
    return new SoakGuest({ run, image, number: index + 1, isCalm: () => weather.isCalm });
  });
  await settledAll(
    guests.map((guest, index) => {
      const site = sites[index % sites.length];
      if (site === undefined) throw new Error("there is no node");
      return guest.start(site);
    }),
  );
  for (const { leaks } of sites) await leaks.check();
  return { run, ovs, shared, sites, guests, claimed, weather };
}

async function guestKernel(): Promise<GuestKernel> {
  const kernel = await findGuestKernel();
  if (kernel === undefined) throw new Error("the guest kernel was not unpacked");
  return kernel;
}
