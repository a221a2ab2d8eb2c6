// npm run test:cluster: our image and chart on a real cluster, KUBECONFIG's or a node of real parts on this machine.
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { resolve } from "node:path";
import { programOf, runProgram } from "../src/command-line/program.ts";
import { IMAGE_DIRECTORY, IMAGES } from "../test/cluster/cluster.ts";
import { kubernetesParts } from "../test/cluster/kubernetes-parts.ts";
import { GUEST_IMAGE_VARIABLE, writeGuestImage } from "../test/cluster/kubevirt-guest.ts";
import { kubeVirtParts } from "../test/cluster/kubevirt-parts.ts";
import { inLabRun, installPackages } from "./in-lab-run.ts";
import { Narrator } from "./narrator.mjs";
import { runTool, runVitest } from "./run-tool.ts";

const ARCHITECTURE = process.arch === "arm64" ? "arm64" : "amd64";

interface Options {
  readonly build: boolean;
  readonly kubevirt?: boolean;
}

async function main(files: readonly string[], { build, kubevirt }: Options): Promise<void> {
  const narrator = new Narrator(process.stdout);
  if (kubevirt === true) {
    if (process.env["KUBECONFIG"] && !process.env[GUEST_IMAGE_VARIABLE]) await buildGuest(narrator);
    kubeVirtParts(process.env);
  }
  const image = async (...args: readonly string[]) => {
    const script = resolve(import.meta.dirname, "image.ts");
    const step = { name: "image", doing: `image ${args.join(" ")}`, tool: process.execPath };
    const { code } = await runTool(narrator, { ...step, args: [script, ...args] });
    if (code !== 0) process.exit(code);
  };
  if (!process.env["KUBECONFIG"]) {
    kubernetesParts(process.env);
    await inLabRun(narrator, (run) => installPackages(run, narrator));
    if (build) await image("--processors", ARCHITECTURE);
    if (IMAGES.some((name) => !existsSync(resolve(IMAGE_DIRECTORY, name)))) await image("--examples");
  }
  const { code } = await runVitest(narrator, {
    ...{ name: "tests", doing: "tests on the cluster" },
    args: ["--project", kubevirt === true ? "kubevirt" : "cluster", ...files],
  });
  process.exitCode = code;
}

/** For the cluster of KUBECONFIG, whose nodes cannot be given an image. */
async function buildGuest(narrator: Narrator): Promise<void> {
  await inLabRun(narrator, (run) => installPackages(run, narrator));
  const directory = resolve(IMAGE_DIRECTORY, "guest");
  await rm(directory, { recursive: true, force: true });
  console.log(await writeGuestImage(directory));
}

const program = programOf(
  "npm run test:cluster --",
  "Installs our image and chart in a real cluster and disturbs it: the one of KUBECONFIG, to which you have loaded the images, or a node on this machine, of the parts that variables name. test/cluster/README.md lists them.",
)
  .argument("[files...]", "test files, and after a further -- options of vitest")
  .option("--no-build", "test the image that is in dist/image, instead of building it")
  .option("--kubevirt", "instead the tests with KubeVirt, on a cluster of two nodes")
  .action(main);
await runProgram(program);
