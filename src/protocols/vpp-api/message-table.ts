import { Failure } from "../../failure/failure.ts";
import type { Call, Shape } from "./call.ts";
import type { Layout } from "./fields.ts";

/** The numbers that a VPP gave to a call's messages. */
type CallIds = Readonly<Record<"ask" | "answer", number>>;

/**
 * The names that VPP gives with its first answer: `<message>_<crc>`. Numbers are good for one connection only: they
 * change with the set of plugins.
 */
export class MessageTable {
  readonly #ids: ReadonlyMap<string, number>;

  constructor(entries: readonly { readonly index: number; readonly name: string }[]) {
    this.#ids = new Map(entries.map(({ index, name }) => [name, index]));
  }

  /** Undefined where this VPP lacks one of the call's messages. */
  find(call: Call<Layout, Layout>): CallIds | undefined {
    const [ask, answer] = [this.idOf(call.ask), this.idOf(call.answer)];
    return ask === undefined || answer === undefined ? undefined : { ask, answer };
  }

  /**
   * The same, where the call is needed.
   * @throws Failure dataplane-misconfigured that names the message, and both checksums where they differ
   */
  resolve(call: Call<Layout, Layout>): CallIds {
    const found = this.find(call);
    if (found !== undefined) return found;
    const { name, crc } = this.idOf(call.ask) === undefined ? call.ask : call.answer;
    const pattern = new RegExp(`^${name}_([0-9a-f]{8})$`);
    const other = [...this.#ids.keys()].map((known) => pattern.exec(known)?.[1]).find(Boolean);
    throw new Failure({
      code: "dataplane-misconfigured",
      ...(other === undefined
        ? {
            what: `this VPP has no API message ${name} (checksum ${crc})`,
            fix: "enable the plugin that has it (vhost_plugin.so, policer_plugin.so) in VPP's startup.conf",
          }
        : {
            what: `this VPP's API message ${name} has checksum ${other}, we know ${crc}`,
            fix: "use a release of VPP from 22.06 on; if it is one, report this",
          }),
    });
  }

  /** The number of a message; undefined where this VPP does not have it. */
  idOf({ name, crc }: Shape<Layout>): number | undefined {
    return this.#ids.get(`${name}_${crc}`);
  }
}
