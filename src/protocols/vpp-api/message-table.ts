import { Failure } from "../../failure/failure.ts";
import type { Call, Event, Shape, Variant } from "./call.ts";
import type { Layout } from "./fields.ts";

/** A variant of a call that this VPP knows, with the numbers that it gave its messages. */
export interface Resolved {
  readonly variant: Variant;
  readonly askId: number;
  readonly answerId: number;
}

/**
 * The names that VPP gives with its first answer: `<message>_<crc>`. Numbers are good for one connection only: they
 * change with the set of plugins.
 */
export class MessageTable {
  readonly #ids: ReadonlyMap<string, number>;

  constructor(entries: readonly { readonly index: number; readonly name: string }[]) {
    this.#ids = new Map(entries.map(({ index, name }) => [name, index]));
  }

  /** The first variant of a call that this VPP knows with both its messages; undefined where it knows no variant. */
  find(call: Call<Layout, Layout>): Resolved | undefined {
    for (const variant of call.variants) {
      const askId = this.#idOf(variant.ask);
      const answerId = this.#idOf(variant.answer);
      if (askId !== undefined && answerId !== undefined) return { variant, askId, answerId };
    }
    return undefined;
  }

  /**
   * The same, where the call is needed.
   * @throws Failure dataplane-misconfigured that names the message, and both checksums where they differ
   */
  resolve(call: Call<Layout, Layout>): Resolved {
    const found = this.find(call);
    if (found !== undefined) return found;
    throw this.#unknown(call.variants[0]);
  }

  /** The number of an event; undefined where this VPP does not have it. */
  eventId(event: Event<Layout>): number | undefined {
    return this.#idOf(event);
  }

  #idOf({ name, crc }: Shape<Layout>): number | undefined {
    return this.#ids.get(`${name}_${crc}`);
  }

  #unknown({ ask, answer }: Variant): Failure {
    const missing = this.#idOf(ask) === undefined ? ask : answer;
    const pattern = new RegExp(`^${missing.name}_([0-9a-f]{8})$`);
    const other = [...this.#ids.keys()].map((name) => pattern.exec(name)?.[1]).find(Boolean);
    return new Failure({
      code: "dataplane-misconfigured",
      what:
        other === undefined
          ? `this VPP has no API message ${missing.name} (checksum ${missing.crc})`
          : `this VPP's API message ${missing.name} has checksum ${other}, we know ${missing.crc}`,
      fix:
        other === undefined
          ? "enable the plugin that has it (vhost_plugin.so, policer_plugin.so) in VPP's startup.conf"
          : "use a release of VPP from 22.06 on; if it is one, report this",
    });
  }
}
