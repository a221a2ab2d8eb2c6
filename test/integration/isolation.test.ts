import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, chown, lstat, mkdir, mkdtemp, readdir, readFile, statfs } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { ensureSocketDirectories } from "../../src/allocation/socket-directories.ts";
import { NEEDED_CAPABILITIES } from "../../src/daemon/check-start.ts";
import { pluginSocketName } from "../../src/device-plugin/plugin.ts";
import { systemCode } from "../../src/failure/failure.ts";
import { newAllocationId } from "../../src/names/allocation-id.ts";
import { ClusterNode, DAEMON_PROGRAM, SOCKETS } from "../cluster/cluster-node.ts";
import { exampleNetwork } from "../cluster/network.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { RecordsDisk } from "../soak/records-disk.ts";
import { buildClockSkew, SkewedClock } from "../soak/skewed-clock.ts";
import type { StandInKubelet } from "../stand-in/kubelet/kubelet.ts";
import { PluginClient } from "../stand-in/kubelet/plugin-client.ts";
import type { SelectedNetwork } from "../stand-in/multus/network.ts";
import { CniError, runPlugin } from "../stand-in/multus/run-plugin.ts";
import { Neighbour, type Noticed, server, serverAt, visit } from "./isolation-neighbour.ts";
import { type AttachedPod, attachPod, said } from "./isolation-pod.ts";
import { startUserSwitch, type UserSwitch } from "./isolation-switch.ts";

/** The pool's group; neither QEMU's user nor root is in it. */
const GROUP = 1500;
const SWITCH = 1234;
const QEMU = 107;

/** Nearly every test ends when what it left is old enough to be reclaimed. */
const RECLAIM = { intervalSeconds: 0.3, graceSeconds: 1 };

let run: LabRun;
let ovs: UserSwitch;
let node: ClusterNode;
let network: SelectedNetwork;
let clock: SkewedClock;
/** Of node a's records. */
let disk: RecordsDisk;
let pods = 0;

/** Exactly the capabilities that docs/security.md and the chart's DaemonSet name, and not one more. */
const setpriv = (without?: string) => {
  const names = Object.keys(NEEDED_CAPABILITIES).filter((name) => name !== without);
  const set = ["-all", ...names.map((name) => `+${name.replace("CAP_", "").toLowerCase()}`)].join(",");
  return ["setpriv", `--bounding-set=${set}`, "--inh-caps=-all", "--no-new-privs", "--"];
};

beforeAll(async () => {
  run = await openLabRun();
  ovs = await startUserSwitch(run, { uid: SWITCH, gid: GROUP, bridge: "br-a" });
  await buildClockSkew(run);
  clock = await SkewedClock.create(run, "a");
  // The switch's user passes through it.
  await mkdir(join(run.directory, "a"), { mode: 0o755 });
  disk = await RecordsDisk.mount(run, join(run.directory, "a"));
  node = await ClusterNode.start(run, {
    ...{ name: "a", bridge: "br-a", databaseSocket: ovs.databaseSocket },
    daemonPrefix: [...setpriv(), ...clock.prefix],
    pool: { directory: { owner: QEMU, group: GROUP, mode: "2770" } },
    reclaim: RECLAIM,
  });
  network = { ...(await exampleNetwork()), interface: "net1" };
});
afterAll(() => run?.close());

const attached: AttachedPod[] = [];
/** What a failed test leaves must not fail the others, an attack above all. */
afterEach(async () => {
  for (const pod of attached.splice(0)) await pod.remove();
});

const attach = async () => {
  const pod = await attachPod(run, node, network, `pod-${pods++}`);
  attached.push(pod);
  return pod;
};

/** The switch's state of a port, by the pod's socket. */
async function portOf(pod: AttachedPod): Promise<string> {
  const path = join(pod.hostDirectory, "net1", "vhost.sock");
  return ovs.vsctl("--columns=status,link_state", "find", "Interface", `options:vhost-server-path="${path}"`);
}

const portName = async (pod: AttachedPod): Promise<string> => {
  const path = join(pod.hostDirectory, "net1", "vhost.sock");
  return ovs.vsctl(
    ...["--no-wait", "--bare", "--columns=name", "find", "Interface", `options:vhost-server-path="${path}"`],
  );
};

const capabilitiesOf = async (pid: number) =>
  /^CapEff:\s*([0-9a-f]+)$/m.exec(await readFile(`/proc/${pid}/status`, "utf8"))?.[1];

describe("the daemon with the capabilities that it names and no other", () => {
  it("allocates, attaches, detaches and reclaims", async () => {
    const bits = Object.values(NEEDED_CAPABILITIES).reduce((sum, { bit }) => sum + 2 ** bit, 0);
    expect(Number.parseInt((await capabilitiesOf(node.daemonPid)) ?? "", 16)).toBe(bits);
    const pod = await attach();
    expect(await portOf(pod)).toContain("disconnected");
    // What only root could have cleaned up: a directory that its owner has closed.
    await pod.runToEnd(
      "main",
      `fs.mkdirSync("${pod.directory}/net1/d"); fs.chmodSync("${pod.directory}/net1/d", 0);`,
    );
    await pod.remove();
    // The directory is removed in the background, after its record.
    await waitUntil(
      async () => {
        const { directories, records } = await node.leftovers();
        return directories + records === 0;
      },
      { what: "reclaim" },
    );
    expect(await portOf(pod)).toBe("");
  });

  it.each(Object.keys(NEEDED_CAPABILITIES))("less %s does not start and says so", (name) => {
    const [command = "", ...args] = [...setpriv(name), process.execPath, DAEMON_PROGRAM];
    const { status, stderr } = spawnSync(command, [...args, "--config", node.configFile], {
      encoding: "utf8",
    });
    expect(status).toBe(1);
    expect(stderr).toContain(`capability-missing: the daemon lacks ${name} `);
  });

  // The check above would be believed without this: each is needed for something.
  it.each([
    ["CAP_CHOWN", "ensure", "EPERM: operation not permitted, fchown"],
    ["CAP_FOWNER", "ensure", "EPERM: operation not permitted, fchmod"],
    ["CAP_FSETID", "ensure", "cannot be set without CAP_FSETID"],
    ["CAP_FOWNER", "open", "EPERM: operation not permitted, chmod"],
    ["CAP_DAC_OVERRIDE", "open", "EACCES: permission denied, open"],
    ["CAP_DAC_OVERRIDE", "remove", "EACCES: permission denied"],
    [undefined, "ensure", "done"],
    [undefined, "open", "done"],
    [undefined, "remove", "done"],
  ])("less %s: %s ends with %s", async (name, step, end) => {
    const root = await mkdtemp(join(run.directory, "step-"));
    const id = newAllocationId();
    const ownership = { owner: QEMU, group: GROUP, mode: 0o2770 };
    await ensureSocketDirectories({ root, allocationId: id, names: ["net1"], ownership });
    const socket = createServer().listen(join(root, id, "net1", "vhost.sock"));
    await once(socket, "listening");
    await chmod(join(root, id, "net1", "vhost.sock"), 0o755);
    await chown(join(root, id, "net1", "vhost.sock"), QEMU, GROUP);
    const program = join(import.meta.dirname, "isolation-step.ts");
    const [command = "", ...args] = [...setpriv(name), process.execPath, program, step, root, id];
    expect(spawnSync(command, args, { encoding: "utf8" }).stdout).toContain(end);
    socket.close();
  });
});

describe("a pod", () => {
  it("sees its own allocation and writes in its interface and device directories only", async () => {
    const [a, b] = [await attach(), await attach()];
    const words = await a.runToEnd(
      "main",
      `const top = "${a.directory}";
      say("names " + fs.readdirSync(top).join(" ") + "; beside " + fs.readdirSync(top + "/..").join(" "));
      say("uid " + process.getuid());
      for (const name of fs.readdirSync(top)) say(name + " " + tried(() => fs.writeFileSync(top + "/" + name + "/x", "")));
      say("above " + tried(() => fs.writeFileSync(top + "/x", "")));
      say("rename " + tried(() => fs.renameSync(top + "/net1", top + "/net2")));
      say("remove " + tried(() => fs.rmdirSync(top + "/net1")));
      say("mode " + tried(() => fs.chmodSync(top, 0o777)));
      say("link to b " + tried(() => fs.readdirSync(top + "/../${b.hostDirectory.split("/").at(-1)}")));
      fs.symlinkSync("..", top + "/net1/up");
      say("through its link " + tried(() => fs.readdirSync(top + "/net1/up")));
      say("setuid " + tried(() => { fs.chmodSync(top + "/net1/x", 0o4755); }));
      say("device " + require("node:child_process").spawnSync("mknod", [top + "/net1/null", "c", "1", "3"]).status);`,
    );
    const device = words.match(/sockets-\d{5}/)?.[0];
    expect(words).toContain(`names net1 ${device}; beside sockets`);
    expect(words).toContain(`uid ${QEMU}`);
    for (const line of ["net1 done", `${device} done`]) expect(words).toContain(line);
    for (const what of ["above", "rename", "remove"])
      expect(words).toMatch(new RegExp(`^${what} EACCES$`, "m"));
    expect(words).toContain("mode EPERM");
    expect(words).toContain("link to b ENOENT");
    expect(words).toContain("through its link ELOOP");
    expect(words).toContain("device 1");
    await a.remove();
    await b.remove();
  });

  it("that makes its socket with umask 022 is connected by a switch of an unprivileged user", async () => {
    const pod = await attach();
    const container = await pod.run("main", server(pod.directory));
    await said(container, "listening");
    await said(container, "connected");
    const socket = await lstat(join(pod.hostDirectory, "net1", "vhost.sock"));
    expect([socket.uid, socket.gid, (socket.mode & 0o777).toString(8)]).toEqual([QEMU, GROUP, "775"]);
    expect(await readFile(`/proc/${ovs.pid}/status`, "utf8")).toMatch(new RegExp(`^Uid:\t${SWITCH}\t`, "m"));
    // Who is not in the group is refused, in the node's own view too.
    // As another user from within: Node itself may be where only root has access.
    const attempt = `process.setgroups([]); process.setgid(4321); process.setuid(4321);
      require("node:net").connect("${pod.hostDirectory}/net1/vhost.sock")
      .on("connect", () => process.exit(0)).on("error", (error) => { console.log(error.code); process.exit(1) })`;
    const stranger = spawnSync(process.execPath, ["-e", attempt], { encoding: "utf8" });
    expect(stranger.stdout.trim()).toBe("EACCES");
    await pod.remove();
  });

  it("of another user finds its socket in three ways, in a pool of that owner; the usual user gets nowhere in it", async () => {
    const owner = 2001;
    const other = await ClusterNode.start(run, {
      ...{ name: "b", bridge: "br-a", databaseSocket: ovs.databaseSocket, daemonPrefix: setpriv() },
      pool: { directory: { owner, group: GROUP, mode: "2770" } },
      reclaim: RECLAIM,
    });
    const pod = await attachPod(run, other, network, `pod-${pods++}`);
    const words = await pod.runToEnd(
      "stranger",
      `say(tried(() => fs.readdirSync("${pod.directory}/net1"))); say(tried(() => fs.writeFileSync("${pod.directory}/net1/x", "")));`,
      QEMU,
    );
    expect(words.trim().split("\n")).toEqual(["EACCES", "EACCES"]);
    const path = "/var/run/vhostuser/sockets/net1/vhost.sock";
    expect(pod.networkStatus.map((status) => status["device-info"])).toMatchObject([
      { "vhost-user": { mode: "server", path } },
    ]);
    const file = join(other.deviceInfoDirectory, `dp/vhostuser-sockets-${pod.device}-device.json`);
    expect(JSON.parse(await readFile(file, "utf8"))["vhost-user"]).toEqual({
      mode: "server",
      path: `/var/run/vhostuser/sockets/${pod.device}/vhost.sock`,
    });
    // The program has it from the environment; the switch, which has never heard of that, connects to the same.
    const main = await pod.run(
      "main",
      `const path = process.env.VHOSTUSER_SOCKETS_DIRECTORY + "/net1/vhost.sock";
      say(process.env.VHOSTUSER_SOCKETS_DEVICES + " " + path); ${serverAt("path")}`,
      owner,
    );
    await said(main, "connected");
    expect(await readFile(main.log, "utf8")).toContain(`${pod.device} ${path}\n`);
    const socket = await lstat(join(pod.hostDirectory, "net1", "vhost.sock"));
    expect([socket.uid, socket.gid, (socket.mode & 0o777).toString(8)]).toEqual([owner, GROUP, "775"]);
    await pod.remove();
    await waitUntil(async () => (await other.leftovers()).directories === 0, {
      what: "reclaim",
    });
    await other.stopDaemon();
  });

  it("that plants links in the place of its socket leads neither the switch nor the daemon anywhere", async () => {
    const [a, b] = [await attach(), await attach()];
    const target = await b.run("main", server(b.directory));
    await said(target, "connected");
    const connections = async () => (await readFile(target.log, "utf8")).split("connected").length - 1;
    const before = { connections: await connections(), shadow: await lstat("/etc/shadow") };
    const database = await lstat(ovs.databaseSocket);
    const path = join(a.hostDirectory, "net1", "vhost.sock");
    for (const [index, to] of [
      join(b.hostDirectory, "net1", "vhost.sock"),
      ovs.databaseSocket,
      "/etc/shadow",
    ].entries()) {
      await a.runToEnd(
        `plant-${index}`,
        `fs.rmSync("${a.directory}/net1/vhost.sock", { force: true });
        fs.symlinkSync("${to}", "${a.directory}/net1/vhost.sock");`,
      );
      // The switch logs only once why it could not connect, when it makes the port: the daemon makes it recreate the port.
      const refused = async () =>
        (await readFile(ovs.log, "utf8")).split(
          `(${path}) failed to connect: Too many levels of symbolic links`,
        ).length;
      const before = await refused();
      // The daemon stands still until the switch has deleted the port: to a busy one it would be a port that is still there.
      const name = await portName(a);
      process.kill(node.daemonPid, "SIGSTOP");
      await ovs.vsctl("del-port", name).finally(() => process.kill(node.daemonPid, "SIGCONT"));
      await waitUntil(async () => (await refused()) > before, { what: `ELOOP for ${to}` });
      await waitUntil(async () => (await portOf(a)).includes("disconnected"), {
        what: "the port's state",
      });
      // Not even root, who may do everything else.
      const code = await new Promise((resolve) => {
        connect(path)
          .on("connect", () => resolve("connected"))
          .on("error", (error) => resolve(systemCode(error)));
      });
      expect(code).toBe("ELOOP");
    }
    // It tried all the time: as soon as there is a socket instead of the link it connects.
    await a.runToEnd("tidy", `fs.rmSync("${a.directory}/net1/vhost.sock")`);
    await said(await a.run("main", server(a.directory)), "connected");
    expect(await connections()).toBe(before.connections);
    const owner = ({ uid, gid, mode, ctimeMs }: Awaited<ReturnType<typeof lstat>>) => [
      uid,
      gid,
      mode,
      ctimeMs,
    ];
    expect(owner(await lstat("/etc/shadow"))).toEqual(owner(before.shadow));
    expect(owner(await lstat(ovs.databaseSocket))).toEqual(owner(database));
    await a.remove();
    await b.remove();
    await waitUntil(async () => (await node.leftovers()).directories === 0, {
      what: "reclaim",
    });
    expect((await lstat("/etc/shadow")).ino).toBe(before.shadow.ino);
    expect((await lstat(ovs.databaseSocket)).isSocket()).toBe(true);
  });
});

describe("others on the node notice nothing", () => {
  const MEMORY = { bounded: 16 * 2 ** 20, ample: 512 * 2 ** 20 };
  const NOTHING: Noticed = {
    ...{ lostConnections: 0, replacedSockets: 0, failedAllocates: 0, failedPasses: 0, notLive: 0 },
  };
  let neighbour: Neighbour;
  let pod: AttachedPod;
  beforeAll(async () => {
    pod = await attachPod(run, node, network, "neighbour");
    neighbour = await Neighbour.start(node, pod);
  });
  afterAll(async () => {
    await neighbour.close();
    await pod.remove();
  });

  const othersNoticeNothing = async () => {
    await visit(await attach(), ovs);
    await neighbour.untilNextPass();
    expect(await neighbour.noticed()).toEqual(NOTHING);
  };
  /** But the neighbour. */
  const untilNothingIsLeft = async () => {
    await waitUntil(async () => (await node.leftovers()).directories === 1, {
      what: "reclaim and removal",
      limitMs: 180_000,
    });
    const { blocks, bfree } = await statfs(node.root);
    expect(blocks - bfree).toBe(0);
  };

  it.each([QEMU, 0])(
    "of pods of uid %d that fill their directories, each with something else, and end in their own memory limits",
    async (uid) => {
      const kinds = ["files", "directories", "attributes", "temporaries"] as const;
      const attacks = await Promise.all(
        kinds.map(async (kind) => {
          const attacker = await attach();
          return { attacker, attack: await attacker.attack({ kind, uid, memoryBytes: MEMORY.bounded }) };
        }),
      );
      try {
        await othersNoticeNothing();
        for (const { attack } of attacks) {
          const what = "the pod's OOM kill";
          await waitUntil(async () => (await attack.oomKills()) > 0, { what, limitMs: 180_000 });
        }
      } finally {
        await Promise.all(attacks.map(({ attack }) => attack[Symbol.asyncDispose]()));
      }
      await Promise.all(attacks.map(({ attacker }) => attacker.remove()));
      await othersNoticeNothing();
      await untilNothingIsLeft();
    },
  );

  it("of a pod that has filled the root with bytes", async () => {
    const a = await attach();
    await using attack = await a.attack({ kind: "bytes", uid: QEMU, memoryBytes: MEMORY.ample });
    await waitUntil(async () => (await statfs(node.root)).bfree === 0, { what: "a full root" });
    await othersNoticeNothing();
    await attack.container.stop("SIGKILL");
    await a.remove();
    await untilNothingIsLeft();
  });

  it("of root in a pod that swaps its directory with a file and fills it, and the pod is removed all the same", async () => {
    const a = await attach();
    await using attack = await a.attack({ kind: "exchange", uid: 0, memoryBytes: MEMORY.ample });
    await othersNoticeNothing();
    expect(attack.container.isRunning()).toBe(true);
    // kubelet forgets the pod while its processes still run: what it fills is gone from its place all the same.
    const allocation = a.hostDirectory;
    await a.forget();
    await waitUntil(async () => !existsSync(allocation), { what: "reclaim" });
    await othersNoticeNothing();
    await attack.container.stop("SIGKILL");
    await a.remove();
    await untilNothingIsLeft();
  });

  it("of a clock that jumps an hour forward, then two back", async () => {
    for (const seconds of [3_600, -3_600, 0]) {
      const across = await attach();
      clock.skew(seconds);
      await across.remove();
      await othersNoticeNothing();
      const times = [...(await readFile(node.daemonLog, "utf8")).matchAll(/"time":"([^"]+)"/g)];
      const aheadMs = Date.parse(times.at(-1)?.[1] ?? "") - Date.now();
      expect(Math.round(aheadMs / 3_600_000) + 0).toBe(seconds / 3_600);
      await untilNothingIsLeft();
    }
  });

  it("of a list of kubelet's that is short or wrong", async () => {
    const lies: readonly NonNullable<StandInKubelet["lie"]>[] = [
      () => [],
      (pods) => pods.filter(({ namespace }) => namespace === "tests"),
      (pods) => pods.map((one) => ({ ...one, containers: [] })),
      (pods) => pods.map((one, at) => ({ ...one, containers: pods.at(at - 1)?.containers ?? [] })),
      (pods) => [...pods, { name: "a\0\u202e/..", namespace: "../..", containers: [] }],
      (pods) => pods.flatMap((one) => Array<typeof one>(1_000).fill(one)),
    ];
    try {
      for (const lie of lies) {
        node.kubelet.lie = lie;
        await neighbour.untilNextPass();
      }
    } finally {
      node.kubelet.lie = undefined;
    }
    expect(await readFile(node.daemonLog, "utf8")).toContain("PodResources list incomplete");
    await othersNoticeNothing();
    await untilNothingIsLeft();
  });

  it("of a read-only disk of the records, but new pods get no devices until it is writable", async () => {
    await disk.makeReadOnly();
    try {
      await expect(attach()).rejects.toThrow(/record-unwritable/);
      await neighbour.untilNextPass();
    } finally {
      await disk.makeWritable();
    }
    const { failedAllocates, ...others } = NOTHING;
    expect(await neighbour.noticed()).toEqual({ ...others, failedAllocates: 1 });
    await visit(await attach(), ovs);
    await untilNothingIsLeft();
  });
});

describe("names from outside", () => {
  /** One pod for all of them, before which nothing is left: what is reclaimed meanwhile would be a difference, too. */
  let uid: string;
  let deviceID: string | undefined;
  const pod = { namespace: "tests", name: "outside" };
  beforeAll(async () => {
    await waitUntil(
      async () => {
        const { directories, records } = await node.leftovers();
        return directories + records === 0;
      },
      { what: "what earlier tests left is gone" },
    );
    const containers = [{ name: "main", resources: { [SOCKETS]: 1 } }];
    const admission = await node.kubelet.admitPod({ ...pod, containers });
    if (admission.phase === "Failed") throw new Error(admission.message);
    uid = admission.uid;
    deviceID = admission.containers[0]?.deviceIds[SOCKETS]?.[0];
  });
  afterAll(() => node.kubelet.removePod(pod));

  const outside = async () => {
    const seen = await readdir(node.directory, { recursive: true });
    return seen.filter((name) => !/\.log$|owner\.lock/.test(name)).sort();
  };

  it.each([
    "../../escape",
    "/etc/passwd",
    "sockets-00000/../../x",
    "sockets-1",
    "other-00000",
    "",
    "sockets-00000\0",
  ])("device id %j is not allocated, and nothing is made", async (id) => {
    const socket = join(node.kubelet.paths.pluginDirectory, pluginSocketName(SOCKETS));
    const kubelet = await PluginClient.connect(socket, 30_000);
    const before = await outside();
    await expect(kubelet.allocate([id])).rejects.toThrow(/INVALID_ARGUMENT/);
    expect(await outside()).toEqual(before);
    kubelet.close();
  });

  it.each([
    ["interface", { CNI_IFNAME: "../../escape" }, {}],
    ["interface that is the device's directory above", { CNI_IFNAME: ".." }, {}],
    ["container id", { CNI_CONTAINERID: "../../escape" }, {}],
    ["device id", {}, { deviceID: "../../escape" }],
    ["device-info file", {}, { CNIDeviceInfoFile: "/etc/escape.json" }],
    ["device-info file", {}, { CNIDeviceInfoFile: "../escape.json" }],
    ["network", {}, { name: "../escape" }],
  ])("%s %j %j is refused by ADD, and nothing is made", async (_what, env, config) => {
    const before = await outside();
    const { name = "escape", ...runtime } = config as Record<string, string>;
    const answer = runPlugin({
      executable: join(import.meta.dirname, "../../dist/cni/kube-vhostuser"),
      env: {
        ...{ CNI_COMMAND: "ADD", CNI_CONTAINERID: "c".repeat(64), CNI_NETNS: "/proc/self/ns/net" },
        ...{ CNI_IFNAME: "net1", CNI_PATH: "/opt/cni/bin", ...env },
        CNI_ARGS: `K8S_POD_NAMESPACE=tests;K8S_POD_NAME=${pod.name};K8S_POD_UID=${uid}`,
        KUBE_VHOSTUSER_CNI_SOCKET: join(node.directory, "cni.sock"),
      },
      stdin: { cniVersion: "1.0.0", name, type: "kube-vhostuser", runtimeConfig: { deviceID, ...runtime } },
    });
    await expect(answer).rejects.toBeInstanceOf(CniError);
    expect(await outside()).toEqual(before);
    for (const file of ["/etc/escape.json", "/escape", "/tmp/escape"]) expect(existsSync(file)).toBe(false);
  });
});
