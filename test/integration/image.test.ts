import { chmod, chown, lstat, mkdir, mkdtemp, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import manifest from "../../package.json" with { type: "json" };
import { type BuiltImage, buildImage } from "../../scripts/image/build-image.ts";
import type { DebianLock } from "../../scripts/image/debian-lock.ts";
import { fetchPackages } from "../../scripts/image/fetch-packages.ts";
import { readImageConfig, unpackImage } from "../../scripts/image/layout.ts";
import { PROCESSORS } from "../../scripts/image/processor.ts";
import type { SpdxDocument } from "../../scripts/image/sbom.ts";
import { mountOf, parseMountInfo, ROOT_FLAGS } from "../../src/allocation/root-mount.ts";
import { NEEDED_CAPABILITIES } from "../../src/daemon/check-start.ts";
import { CACHE_DIRECTORY } from "../machine/cache.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { HookManager } from "../stand-in/virt-launcher/hook-manager.ts";
import { ImageContainers } from "./image-container.ts";
import { startImageNode } from "./image-node.ts";

const HOME = "/opt/kube-vhostuser/dist";
const KUBEVIRT = 107;
const MINUTE = 60_000;

interface ImageConfig {
  readonly User: string;
  readonly Env: readonly string[];
  readonly Entrypoint: readonly string[];
  readonly Labels: Readonly<Record<string, string>>;
}

let run: LabRun;
let lock: DebianLock;
let built: BuiltImage;
let rootfs: string;
let config: ImageConfig;
let containers: ImageContainers;

const processors = PROCESSORS.filter(({ node }) => node === process.arch);
const state = { version: manifest.version, revision: "0".repeat(40), created: 1_700_000_000 };
const build = (output: string) =>
  buildImage({
    ...{ processors, state, lock, output, archives: false },
    name: `localhost/kube-vhostuser:${state.version}`,
    downloads: join(CACHE_DIRECTORY, "image"),
  });

beforeAll(async () => {
  run = await openLabRun();
  const [{ oci: architecture } = { oci: "amd64" }] = processors;
  // What the archive has today: a fix in Debian must not fail this test.
  const packages = await fetchPackages({
    ...{ architecture, downloads: join(CACHE_DIRECTORY, "image") },
    scratch: await mkdtemp(join(run.directory, "apt-")),
  });
  lock = { [architecture]: Object.fromEntries(packages.map(({ name, ...locked }) => [name, locked])) };
  built = await build(join(run.directory, "one"));
  rootfs = await mkdtemp(join(run.directory, "rootfs-"));
  await chmod(rootfs, 0o755);
  const [image] = built.images;
  if (image === undefined) throw new Error("there is no image");
  await unpackImage(built.layout, image, rootfs);
  config = (await readImageConfig(built.layout, image)).config as ImageConfig;
  containers = new ImageContainers(run, config.Env.find((each) => each.startsWith("PATH="))?.slice(5) ?? "");
}, 5 * MINUTE);
afterAll(() => run?.close());

describe("the image", () => {
  it(
    "is the same when it is built again elsewhere, with another umask",
    async () => {
      const before = process.umask(0o077);
      try {
        const again = await build(join(run.directory, "two"));
        expect(again.index.digest).toBe(built.index.digest);
      } finally {
        process.umask(before);
      }
    },
    2 * MINUTE,
  );

  it("starts the sidecar as KubeVirt's user, has Node in a layer of its own and says what it is", () => {
    expect(config).toMatchObject({
      User: "107:107",
      Entrypoint: [`${HOME}/sidecar/main.mjs`],
      Labels: {
        "org.opencontainers.image.version": manifest.version,
        "org.opencontainers.image.revision": state.revision,
        "org.opencontainers.image.created": "2023-11-14T22:13:20.000Z",
        "org.opencontainers.image.licenses": "Apache-2.0",
      },
    });
    expect(built.images[0]?.layers.length).toBe(3);
    // docs/images.md has the sizes of today.
    for (const [index, mebibytes] of [4, 50, 2].entries()) {
      expect(built.sizes[index]?.packed).toBeLessThan(mebibytes * 1024 * 1024);
    }
  });

  it("has nothing that a user other than root could change, or that makes its caller root", async () => {
    const { stdout } = await runProgram("find", [
      ...[
        rootfs,
        "(",
        "-perm",
        "/7022",
        "-a",
        "!",
        "-type",
        "l",
        ")",
        "-o",
        "!",
        "-uid",
        "0",
        "-o",
        "!",
        "-gid",
        "0",
      ],
    ]);
    expect(stdout).toBe("");
  });

  it("has no shell and no program but those that it needs", async () => {
    expect((await readdir(join(rootfs, "usr/bin"))).sort()).toEqual(["chcon", "env", "mount", "stat"]);
    expect((await readdir(join(rootfs, "usr/local/bin"))).sort()).toEqual(["node", "vhostuserctl"]);
    expect(await readdir(join(rootfs, "usr/sbin"))).toEqual([]);
  });

  it("has a bill of materials of every library, program and npm package in it, each with its licence", async () => {
    const text = await readFile(join(rootfs, "usr/share/doc/kube-vhostuser/sbom.spdx.json"), "utf8");
    const bill = JSON.parse(text) as SpdxDocument;
    const names = bill.packages.map(({ name }) => name);
    expect(names).toEqual(
      expect.arrayContaining(["libc6", "libstdc++6", "node", "kube-vhostuser", "zod", "pino"]),
    );
    expect(bill.packages.filter(({ licenseDeclared }) => !/^[(A-Z\w]/.test(licenseDeclared))).toEqual([]);
    expect(names).toEqual(expect.arrayContaining(await readdir(join(rootfs, "var/lib/dpkg/status.d"))));
    const notices = await readFile(
      join(rootfs, "usr/share/doc/kube-vhostuser/THIRD-PARTY-NOTICES.txt"),
      "utf8",
    );
    for (const { SPDXID, name } of bill.packages) {
      if (SPDXID.startsWith("SPDXRef-npm-")) expect(notices).toContain(`\n${name} `);
      // Follows the links that some packages have there, inside of the image.
      if (SPDXID.startsWith("SPDXRef-deb-")) await readFile(join(rootfs, `usr/share/doc/${name}/copyright`));
    }
    for (const path of built.files) expect(JSON.parse(await readFile(path, "utf8"))).toEqual(bill);
  });
});

describe("a container of the image", () => {
  it.each([
    ["vhostuserctl", "vhostuserctl"],
    [`${HOME}/daemon/main.mjs`, "kube-vhostuser"],
    [`${HOME}/mount-root/main.mjs`, "kube-vhostuser"],
    [`${HOME}/cni-installer/main.mjs`, "kube-vhostuser"],
    [`${HOME}/sidecar/main.mjs`, "kube-vhostuser"],
    [`${HOME}/cni/kube-vhostuser`, "kube-vhostuser"],
    [`${HOME}/cni/kube-vhostuser-ipam`, "kube-vhostuser"],
  ])("has %s of this release, for a user without privileges", async (program, name) => {
    const { stdout, stderr } = await containers.runToEnd({
      rootfs,
      args: [program, "--version"],
      uid: KUBEVIRT,
    });
    expect(stderr).toBe("");
    expect(stdout).toBe(`${name} ${manifest.version}\n`);
  });

  it("sets and reads labels with programs that find their libraries", async () => {
    for (const program of ["chcon", "stat", "mount"]) {
      const { stdout } = await containers.runToEnd({ rootfs, args: [program, "--version"], uid: KUBEVIRT });
      expect(stdout).toContain(program);
    }
  });

  it("installs the CNI executable on the node, as root without any capability", async () => {
    const directory = await mkdtemp(join(run.directory, "cni-bin-"));
    // What is there may be anybody's, and not to be read.
    await writeFile(join(directory, "kube-vhostuser"), "", { mode: 0o600 });
    await chown(join(directory, "kube-vhostuser"), KUBEVIRT, KUBEVIRT);
    const mounts = [{ from: directory, to: "/host/opt/cni/bin" }];
    const args = [`${HOME}/cni-installer/main.mjs`];
    const { stdout, stderr } = await containers.runToEnd({ rootfs, args, uid: 0, mounts });
    expect(stderr).toBe("");
    expect(stdout).toContain("/host/opt/cni/bin/kube-vhostuser is installed");
    expect((await lstat(join(directory, "kube-vhostuser"))).mode & 0o7777).toBe(0o755);
    const answer = await runProgram(join(directory, "kube-vhostuser"), [], {
      env: { CNI_COMMAND: "VERSION" },
    });
    expect(answer.stdout).toContain('"1.1.0"');
    await containers.runToEnd({ rootfs, args: [...args, "--uninstall"], uid: 0, mounts });
    expect(await readdir(directory)).toEqual([]);
  });

  it("answers virt-launcher as a sidecar, started as KubeVirt does", async () => {
    const hooks = await mkdtemp(join(run.directory, "h-"));
    await mkdir(join(hooks, "hook-sidecar-0"));
    await chown(join(hooks, "hook-sidecar-0"), KUBEVIRT, KUBEVIRT);
    const sidecar = await containers.start({
      ...{ rootfs, args: config.Entrypoint, uid: KUBEVIRT },
      env: { CONTAINER_NAME: "hook-sidecar-0" },
      mounts: [{ from: join(hooks, "hook-sidecar-0"), to: "/var/run/kubevirt-hooks" }],
    });
    const manager = new HookManager({ hooksDirectory: hooks, layout: "nested", collectTimeoutMs: 30_000 });
    const [hook] = await Promise.race([manager.collect(1), sidecar.died]);
    expect(hook).toMatchObject({ name: "kube-vhostuser", version: "v1alpha3" });
    await sidecar.stop();
    expect(await sidecar.ended).toBe(0);
  });

  it("mounts the root on the node, and is ready there as the daemon with the capabilities of its manifest", async () => {
    const { root, kubelet, files, port, pagePort } = await startImageNode(run);
    const config = { from: files, to: "/etc/kube-vhostuser", readOnly: true };
    const step = await containers.runToEnd({
      ...{ rootfs, args: [`${HOME}/mount-root/main.mjs`], uid: 0, capabilities: "all" },
      mounts: [config, { from: root, to: "/var/run/vhostuser", propagation: "rshared" }],
    });
    expect(step.stderr).toBe("");
    const mount = mountOf(root, parseMountInfo(await readFile("/proc/self/mountinfo", "utf8")));
    expect([...(mount?.flags ?? [])]).toEqual(expect.arrayContaining([...ROOT_FLAGS]));
    const [records, sockets, deviceInfo] = await Promise.all(
      ["records-", "sockets-", "devinfo-"].map((prefix) => mkdtemp(join(run.directory, prefix))),
    );
    const daemon = await containers.start({
      ...{
        rootfs,
        args: [`${HOME}/daemon/main.mjs`],
        uid: 0,
        capabilities: Object.keys(NEEDED_CAPABILITIES),
      },
      mounts: [
        config,
        { from: root, to: "/var/run/vhostuser", propagation: "rslave" },
        { from: records ?? "", to: "/var/lib/kube-vhostuser" },
        { from: sockets ?? "", to: "/run/kube-vhostuser" },
        { from: deviceInfo ?? "", to: "/var/run/k8s.cni.cncf.io/devinfo" },
        { from: kubelet.paths.pluginDirectory, to: "/var/lib/kubelet/device-plugins" },
        {
          from: join(kubelet.paths.podResourcesSocket, ".."),
          to: "/var/lib/kubelet/pod-resources",
          readOnly: true,
        },
      ],
    });
    const answer = async (path: string, at = port) =>
      fetch(`http://127.0.0.1:${at}${path}`).then(
        ({ status }) => status,
        () => 0,
      );
    const ready = waitUntil(async () => (await answer("/readyz")) === 200, {
      what: "readiness",
    });
    await Promise.race([ready, daemon.died]);
    expect(await answer("/livez")).toBe(200);
    expect(await answer("/", pagePort), "the status page").toBe(200);
    expect(kubelet.registrations.map(({ resource }) => resource)).toContain("vhostuser/sockets");
    const { stdout } = containers.exec(daemon, ["vhostuserctl", "status", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({ version: manifest.version, pools: [{ name: "sockets" }] });
    await daemon.stop();
    expect(await daemon.ended).toBe(0);
  });
});
