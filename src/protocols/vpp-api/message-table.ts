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
  /** Asked for with each message of a listing. */
  readonly #resolved = new Map<Call<Layout, Layout>, CallIds>();

  constructor(entries: readonly { readonly index: number; readonly name: string }[]) {
    this.#ids = new Map(entries.map(({ index, name }) => [name, index]));
  }

  /**
   * The numbers of a call's messages.
   * @throws Failure dataplane-misconfigured that names the message, and both checksums where they differ
   */
  resolve(call: Call<Layout, Layout>): CallIds {
    const known = this.#resolved.get(call);
    if (known !== undefined) return known;
    const [ask, answer] = [this.idOf(call.ask), this.idOf(call.answer)];
    if (ask === undefined) throw this.#lacking(call.ask);
    if (answer === undefined) throw this.#lacking(call.answer);
    this.#resolved.set(call, { ask, answer });
    return { ask, answer };
  }

  #lacking({ name, crc }: Shape<Layout>): Failure {
    const pattern = new RegExp(`^${name}_([0-9a-f]{8})$`);
    const other = [...this.#ids.keys()].map((known) => pattern.exec(known)?.[1]).find(Boolean);
    return new Failure({
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
