import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { PortSecurity } from "../../src/dataplane/ovs/security/port-security.ts";
import type { SecuredPort } from "../../src/dataplane/ovs/security/rules.ts";
import { output, PORT, packetOut } from "../../src/protocols/openflow/action.ts";
import { bridgeSocket, connectOpenflow } from "../../src/protocols/openflow/connection.ts";
import { systemClock } from "../../src/sync/clock.ts";
import { soon } from "../contract/switch-under-test.ts";
import { joinBridges, type OvsDpdk, startOvsDpdk } from "../lab/ovs-dpdk.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { icmp6, udp } from "./guest-frames.ts";

// The guest is a tap device of the switch, and the kernel and busybox behind it.
describe("requests for addresses on a port of OVS-DPDK", () => {
  const bridge = "br-a";
  const name = "guest0";
  const mac = "02:00:00:00:00:01";
  const dhcp: SecuredPort["dhcp"] = {
    mac,
    mtu: 1400,
    addresses: [{ address: "10.9.0.5/24", gateway: "10.9.0.254" }, { address: "fd09::5/64" }],
    routes: [{ dst: "10.200.0.0/16" }],
    dns: { nameservers: ["10.9.0.53"], domain: "example.org", search: [] },
  };
  const secured: SecuredPort = { name, mac, addresses: ["10.9.0.5", "fd09::5"], dhcp };
  const open: SecuredPort = { name, mac, dhcp };
  const discover = udp({ from: mac }, ["0.0.0.0", 68], ["255.255.255.255", 67]);
  const solicitation = icmp6({ from: mac }, { from: "fe80::ff:fe00:1", to: "ff02::2", type: 133 });
  let run: LabRun;
  let ovs: OvsDpdk;
  let script: string;
  let security: PortSecurity;
  let warnings: string[];
  /** What became of requests, in order. */
  let outcomes: string[];

  const inSwitch = async (...command: string[]) => {
    const target = ["--net", "--target", String(ovs.pids().vswitchd)];
    return (await runProgram("nsenter", [...target, ...command])).stdout;
  };
  const startDevice = async () => {
    await inSwitch("sysctl", "-qw", `net.ipv6.conf.${name}.accept_ra=2`);
    await inSwitch("ip", "link", "set", name, "address", mac, "up");
  };
  /** The guest's own client: what it was given, by the names of its variables. */
  const askByDhcp = async () => {
    const client = ["busybox", "udhcpc", "-i", name, "-f", "-q", "-n", "-t", "20", "-T", "1"];
    const text = await inSwitch(...client, "-O", "mtu", "-O", "staticroutes", "-s", script);
    const given = text.split("\n").flatMap((line) => /^given (\w+)=(.*)$/.exec(line)?.slice(1, 3) ?? []);
    return Object.fromEntries(given.flatMap((_, at) => (at % 2 === 0 ? [[given[at], given[at + 1]]] : [])));
  };
  const trace = async (frame: Buffer) => {
    const port = await ovs.vsctl("get", "Interface", name, "ofport");
    const text = await ovs.appctl("ofproto/trace", bridge, `in_port=${port}`, frame.toString("hex"));
    const actions = /Datapath actions: (.*)/.exec(text)?.[1] ?? text;
    return {
      asks: actions.includes("controller"),
      forwards: /(^|,)\d+(,|$)/.test(actions.replace(/\(.*\)/g, "")),
    };
  };
  const flows = async (cookie: string) =>
    (await ovs.ofctl(bridge, "dump-flows", "--no-stats", `cookie=${cookie}`)).match(/cookie=/g)?.length ?? 0;

  beforeAll(async () => {
    run = await openLabRun();
    const directory = join(run.directory, "ovs");
    ovs = await startOvsDpdk(run, { directory, bridges: ["br-a", "br-b"], dpdk: false });
    await joinBridges(ovs, "br-a", "br-b");
    await ovs.vsctl("add-port", bridge, name, "--", "set", "Interface", name, "type=internal");
    script = join(run.directory, "udhcpc.sh");
    await writeFile(
      script,
      '#!/bin/sh\n[ "$1" = bound ] && env | sed -n "s/^\\([a-z]*\\)=/given \\1=/p"\nexit 0\n',
    );
    await chmod(script, 0o755);
    await startDevice();
  });
  beforeEach(() => {
    warnings = [];
    outcomes = [];
    const write = (line: string) => void warnings.push(JSON.parse(line).msg);
    const logger = pino({ level: "warn" }, { write });
    const note = (outcome: string) => void outcomes.push(outcome);
    security = new PortSecurity(ovs.directory, logger, systemClock, note);
  });
  afterEach(async () => {
    await security.remove(bridge, name, soon());
    security.close();
    await ovs.ofctl(bridge, "del-flows", "cookie=0x7668700000000000/-1");
  });
  afterAll(() => run?.close());

  it.each([
    ["with port security", secured],
    ["without", open],
  ])("are answered there and nowhere else, %s", async (_, port) => {
    await security.ensure(bridge, port, soon());
    expect(await askByDhcp()).toMatchObject({
      ...{ ip: "10.9.0.5", subnet: "255.255.255.0", serverid: "10.9.0.254", mtu: "1400" },
      ...{
        dns: "10.9.0.53",
        domain: "example.org",
        staticroutes: "10.200.0.0/16 10.9.0.254",
        lease: "604800",
      },
    });
    // At least an offer and an acknowledgement.
    expect(outcomes.filter((outcome) => outcome === "answered").length).toBeGreaterThanOrEqual(2);
    expect(await trace(discover)).toEqual({ asks: true, forwards: false });
    expect(await trace(udp({ from: mac }, ["fe80::ff:fe00:1", 546], ["ff02::1:2", 547]))).toEqual({
      ...{ asks: true, forwards: false },
    });
    // The network's routers are to answer too.
    expect(await trace(solicitation)).toEqual({ asks: true, forwards: true });
    expect(await security.check(bridge, port, soon())).toEqual([]);
  });

  it("of another MAC, and on a port without addresses of the family, are the network's", async () => {
    const of = udp({ from: "02:00:00:00:00:02" }, ["0.0.0.0", 68], ["255.255.255.255", 67]);
    await security.ensure(
      bridge,
      { ...open, dhcp: { ...dhcp, addresses: [{ address: "10.9.0.5/24" }] } },
      soon(),
    );
    expect(await trace(of)).toEqual({ asks: false, forwards: true });
    expect(await trace(discover)).toEqual({ asks: true, forwards: false });
    expect(await trace(solicitation)).toEqual({ asks: false, forwards: true });
  });

  it("by router solicitation: the guest learns its network and the MTU for ever, and no default route", async () => {
    await security.ensure(bridge, secured, soon());
    await inSwitch("ip", "link", "set", name, "down");
    await inSwitch("ip", "link", "set", name, "up");
    let routes = "";
    await waitUntil(
      async () => {
        routes = await inSwitch("ip", "-6", "route", "show", "dev", name);
        return routes.includes("fd09::/64");
      },
      { what: "the guest has a route to its network", detail: () => routes },
    );
    expect(routes).not.toMatch(/fd09::\/64[^\n]*expires|default/);
    expect(await inSwitch("cat", `/proc/sys/net/ipv6/conf/${name}/mtu`)).toBe("1400\n");
    expect(
      await inSwitch("ip", "-6", "addr", "show", "dev", name),
      "no address of its own choice",
    ).not.toContain("fd09:");
  });

  it("are answered again after the switch restarted", async () => {
    await security.ensure(bridge, secured, soon());
    const before = await flows("0x7668750000000000/0xffffff0000000000");
    await ovs.restartVswitchd();
    await waitUntil(async () => (await flows("0x7668750000000000/0xffffff0000000000")) === before, {
      what: "the flows are back",
    });
    await startDevice();
    expect(await askByDhcp()).toMatchObject({ ip: "10.9.0.5" });
  });

  it("that come without end are dropped by the switch for a while", async () => {
    await security.ensure(bridge, secured, soon());
    const inPort = Number(await ovs.vsctl("get", "Interface", name, "ofport"));
    const connection = await connectOpenflow({ path: bridgeSocket(ovs.directory, bridge) }, soon());
    const send = packetOut({ inPort, actions: [output(PORT.table)], frame: discover });
    await connection.exchange(new Array(40).fill(send), soon());
    connection.close();
    await waitUntil(async () => (await flows("0x7668700000000000/-1")) === 3, {
      what: "the pause has begun",
    });
    expect(await trace(discover)).toEqual({ asks: false, forwards: false });
    expect(await trace(solicitation)).toEqual({ asks: false, forwards: true });
    expect(outcomes).toContain("dropped");
    expect(warnings).toEqual(["a guest asks for addresses too often, its requests are dropped for a while"]);
    expect(await security.check(bridge, secured, soon())).toEqual([]);
  });

  it("by DHCPv6, as dhcpcd takes it: all addresses, name servers and names to search", async () => {
    const addresses = [...dhcp.addresses, { address: "fd0a::7/56" }];
    const dns = { nameservers: ["fd09::53"], search: ["a.example", "b.example"] };
    await security.ensure(bridge, { ...open, dhcp: { ...dhcp, addresses, dns } }, soon());
    const config = join(run.directory, "dhcpcd.conf");
    const hook = join(run.directory, "hook.sh");
    const given = join(run.directory, "given");
    await writeFile(config, "ia_na\noption dhcp6_name_servers, dhcp6_domain_search\n");
    await writeFile(hook, `#!/bin/sh\n[ "$reason" = BOUND6 ] && env >${given}\nexit 0\n`);
    await chmod(hook, 0o755);
    // What it keeps on disk is in a mount namespace of its own.
    const prepare = "mount -t tmpfs none /run; mount -t tmpfs none /var/lib; mkdir /var/lib/dhcpcd";
    const client = `dhcpcd --oneshot --nobackground --ipv6only --config ${config} --script ${hook} ${name}`;
    await inSwitch("unshare", "--mount", "sh", "-ec", `${prepare}; exec ${client}`);
    const got = await inSwitch("ip", "-6", "addr", "show", "dev", name, "scope", "global");
    expect(got.match(/inet6 \S+/g)?.sort()).toEqual(["inet6 fd09::5/128", "inet6 fd0a::7/128"]);
    const routes = await inSwitch("ip", "-6", "route", "show", "dev", name, "proto", "ra");
    expect(routes.match(/^\S+/gm)?.sort()).toEqual(["fd09::/64", "fd0a::/56"]);
    const variables = (await readFile(given, "utf8")).split("\n");
    expect(variables).toContain("new_dhcp6_name_servers=fd09::53");
    expect(variables).toContain("new_dhcp6_domain_search=a.example b.example");
  });
});
