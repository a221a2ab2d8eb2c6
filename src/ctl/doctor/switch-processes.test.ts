import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { findSwitches } from "./permission-checks.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-proc-"));
});
afterEach(() => rm(directory, { recursive: true }));

async function run(pid: number, name: string, program?: string): Promise<void> {
  const at = join(directory, "proc", String(pid));
  await mkdir(at, { recursive: true });
  await writeFile(join(at, "status"), `Name:\t${name}\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \n`);
  if (program !== undefined) await symlink(program, join(at, "exe"));
}
const find = async (type: "ovs-dpdk" | "vpp") => {
  const ovs = { type: "ovs-dpdk", database: join(directory, "db.sock") } as const;
  const config = type === "vpp" ? ({ type, apiSocket: "/api.sock" } as const) : ovs;
  return (await findSwitches(join(directory, "proc"), config)).map(({ pid }) => pid).sort();
};

it("a process with a switch's name and another program is not a switch", async () => {
  await run(1, "ovs-vswitchd", "/home/user/server");
  await run(2, "ovs-vswitchd-dp", "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk (deleted)");
  await run(3, "ovs-vswitchd", "/usr/sbin/ovs-vswitchd.dpdk");
  await run(4, "vpp_main", "/usr/bin/vpp");
  await run(5, "vpp_main", "/usr/bin/sleep");
  await run(6, "vpp");
  await run(7, "bash", "/usr/bin/vpp");
  expect([await find("ovs-dpdk"), await find("vpp")]).toEqual([
    ["2", "3"],
    ["4", "6"],
  ]);
  const [vpp] = await findSwitches(join(directory, "proc"), { type: "vpp", apiSocket: "/api.sock" });
  expect(vpp).toEqual({
    pid: "4",
    name: "vpp_main",
    program: "/usr/bin/vpp",
    uid: 2,
    groups: [6, 9, 10],
  });
});

it("of several Open vSwitches it is the one of the database's pidfile, where that is one", async () => {
  await run(2, "ovs-vswitchd", "/usr/sbin/ovs-vswitchd");
  await run(3, "ovs-vswitchd", "/usr/sbin/ovs-vswitchd");
  expect(await find("ovs-dpdk")).toEqual(["2", "3"]);
  await writeFile(join(directory, "ovs-vswitchd.pid"), "3\n");
  expect(await find("ovs-dpdk")).toEqual(["3"]);
  await writeFile(join(directory, "ovs-vswitchd.pid"), "99\n");
  expect(await find("ovs-dpdk")).toEqual(["2", "3"]);
});
