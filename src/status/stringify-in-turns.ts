import { setImmediate as nextTurn } from "node:timers/promises";

/** Elements of a list between two turns of the event loop. */
const AT_ONCE = 200;

/** JSON of an object whose lists may be long, made so that no other work has to wait for all of it. */
export async function stringifyInTurns(value: Readonly<Record<string, unknown>>): Promise<string> {
  const members: string[] = [];
  for (const [key, member] of Object.entries(value)) {
    if (member === undefined) continue;
    const text = Array.isArray(member) ? await listInTurns(member) : JSON.stringify(member);
    members.push(`${JSON.stringify(key)}:${text}`);
  }
  return `{${members.join(",")}}`;
}

async function listInTurns(list: readonly unknown[]): Promise<string> {
  const parts: string[] = [];
  for (let from = 0; from < list.length; from += AT_ONCE) {
    if (from > 0) await nextTurn();
    parts.push(JSON.stringify(list.slice(from, from + AT_ONCE)).slice(1, -1));
  }
  return `[${parts.join(",")}]`;
}
