import { setTimeout as delay } from "node:timers/promises";
import type { Dice } from "../churn/dice.ts";
import { settledAll } from "../churn/settled-all.ts";
import { startController } from "../cluster/bundled-ipam.ts";
import { addClaimNetwork, ClaimedVm } from "../cluster/claimed-vm.ts";
import { VmPod } from "../cluster/vm-pod.ts";
import { answerConversations, conversationGoesOn, openConversation } from "../guest/conversation.ts";
import type { Guest } from "../guest/guest.ts";
import type { GuestImage } from "../guest/image.ts";
import type { Child } from "../machine/child.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import { guestNetwork, guestVariant } from "./guest-networks.ts";
import type { Site } from "./site.ts";

/** A start of the VM takes longer. */
const KILLED_WITHIN_MS = 3_000;

/** A VM that starts, migrates and stops in each round with the address of its IPAMClaim, and the cluster's IPAM. */
export class ClaimedLife {
  /** Of the nodes' IPAM agents and the controller. */
  readonly api: FakeApiServer;
  readonly #run: LabRun;
  readonly #vm: ClaimedVm;
  #controller: Child | undefined;
  #controllers = 0;

  private constructor(run: LabRun, api: FakeApiServer, image: GuestImage) {
    this.#run = run;
    this.api = api;
    const network = addClaimNetwork(api, guestNetwork(guestVariant(0)), "10.1.0");
    const newPod = (options: Omit<ConstructorParameters<typeof VmPod>[0], "run" | "image">) =>
      new VmPod({ run, image, ...options });
    this.#vm = new ClaimedVm({ api, name: "claimed", network, newPod });
  }

  /** Makes the VM, which is stopped, and starts the controller. @param nodes names */
  static async open(run: LabRun, image: GuestImage, nodes: readonly string[]): Promise<ClaimedLife> {
    const api = await FakeApiServer.start();
    run.cleanup.defer("stop the API server of IPAM", () => api.close());
    api.namespaces.add("tests");
    for (const name of nodes) api.store.create("nodes", { metadata: { name } });
    const life = new ClaimedLife(run, api, image);
    await life.#startController();
    return life;
  }

  /**
   * Starts the VM on one site, migrates it to the other one, and stops it, while the IPAM programs are killed. Its address and MAC
   * have to be those of the rounds before, and its TCP connection to a guest has to outlive the migration.
   * @param address of that guest
   * @returns what was done
   */
  async round(sites: readonly Site[], dice: Dice, peer: Guest, address: string): Promise<string> {
    const [from, to] = dice.percent(50) ? sites : sites.toReversed();
    if (from === undefined || to === undefined) throw new Error("there is one node only");
    const vm = this.#vm;
    const [source] = await settledAll([
      vm.start(from.node),
      this.#killPrograms(from, dice.below(KILLED_WITHIN_MS)),
    ]);
    if (source === undefined) throw new Error("the VM has no pod");
    await answerConversations(peer);
    await openConversation(source.guest, address);
    const [target] = await settledAll([
      vm.migrate(to.node),
      this.#killPrograms(to, dice.below(KILLED_WITHIN_MS)),
    ]);
    if (target === undefined) throw new Error("the VM has no pod");
    await conversationGoesOn(target.guest);
    await vm.stop();
    return `the VM with a claim starts on ${from.node.name} and migrates as ${vm.address}, IPAM is killed`;
  }

  async #killPrograms({ node }: Site, afterMs: number): Promise<undefined> {
    await delay(afterMs);
    await Promise.all([this.#controller?.stop("SIGKILL"), node.agent?.stop("SIGKILL")]);
    await Promise.all([this.#startController(), node.agent?.start()]);
  }

  async #startController(): Promise<void> {
    this.#controllers += 1;
    const name = `ipam-controller-${this.#controllers}`;
    this.#controller = await startController(this.#run, this.api, name, ["--claims", "--manage-claims"]);
  }
}
