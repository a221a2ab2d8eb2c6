import { randomUUID } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { LibvirtNode } from "./libvirt-node.ts";

/** What libvirt says of a completed migration. */
export interface MigrationFigures {
  /** The time in which the guest ran on neither side, ms. */
  readonly downtimeMs: number;
  readonly totalMs: number;
  /** Memory that was sent, as virsh prints it, for example "42.1 MiB". */
  readonly transferred: string;
}

/** What can be done with the domains of one libvirtd. Each throws Failure internal with virsh's words. */
export interface DomainVerbs {
  /** Defines a domain, checked against libvirt's schema. */
  define(xml: string): Promise<void>;
  undefine(name: string): Promise<void>;
  start(name: string): Promise<void>;
  /** Ends the guest at once. */
  destroy(name: string): Promise<void>;
  /** "running", "shut off", "paused", ... */
  state(name: string): Promise<string>;
  /** The running domain's XML. */
  dumpXml(name: string): Promise<string>;
  /** The domain as the next start would make it: what KubeVirt reads back between two hook calls. */
  dumpInactiveXml(name: string): Promise<string>;
  /** Names of all domains, running or not. */
  list(): Promise<string[]>;
  /**
   * Live-migrates a domain to another node, peer to peer and persistent as KubeVirt does; the source keeps its
   * definition, shut off.
   */
  migrate(name: string, to: Pick<LibvirtNode, "peerUri" | "migrationUri">): Promise<MigrationFigures>;
}

/** The verbs over a virsh that is bound to one node. */
export function domainVerbs(virsh: (...args: string[]) => Promise<string>, directory: string): DomainVerbs {
  const quiet = async (...args: string[]) => {
    await virsh(...args);
  };
  return {
    define: async (xml) => {
      const file = join(directory, `define-${randomUUID()}.xml`);
      await writeFile(file, xml);
      try {
        await virsh("define", "--validate", file);
      } finally {
        await rm(file, { force: true });
      }
    },
    undefine: (name) => quiet("undefine", name),
    start: (name) => quiet("start", name),
    destroy: (name) => quiet("destroy", name),
    state: async (name) => (await virsh("domstate", name)).trim(),
    dumpXml: (name) => virsh("dumpxml", name),
    dumpInactiveXml: (name) => virsh("dumpxml", "--inactive", name),
    list: async () => (await virsh("list", "--all", "--name")).split("\n").filter((line) => line !== ""),
    migrate: async (name, to) => {
      await virsh(
        ...["migrate", "--live", "--p2p", "--persistent"],
        ...[name, to.peerUri, "--migrateuri", to.migrationUri],
      );
      return readMigration(await virsh("domjobinfo", name, "--completed", "--keep-completed"));
    },
  };
}

function readMigration(text: string): MigrationFigures {
  const value = (key: string) => new RegExp(`^${key}:\\s*(.+?)\\s*$`, "m").exec(text)?.[1];
  const ms = (key: string) => Number(/^(\d+)\s*ms/.exec(value(key) ?? "")?.[1] ?? Number.NaN);
  return {
    downtimeMs: ms("Total downtime"),
    totalMs: ms("Time elapsed"),
    transferred: value("Data processed") ?? "",
  };
}
