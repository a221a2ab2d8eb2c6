import type { Server, Socket } from "node:net";

/**
 * Keeps a server from having more connections than this. One too many costs the caller who has most of them his latest,
 * so that whoever holds many shuts out himself, and not kubelet's probes.
 */
export function limitConnections(server: Server, most: number): void {
  const open = new Map<string, Set<Socket>>();
  let count = 0;
  const forget = (caller: string, socket: Socket) => {
    const own = open.get(caller);
    if (own?.delete(socket) !== true) return;
    count -= 1;
    if (own.size === 0) open.delete(caller);
  };
  server.on("connection", (socket: Socket) => {
    // Nobody can tell the callers of a Unix socket apart.
    const caller = socket.remoteAddress ?? "";
    open.set(caller, (open.get(caller) ?? new Set()).add(socket));
    count += 1;
    socket.once("close", () => forget(caller, socket));
    if (count <= most) return;
    const [greedy, latest] = latestOfMost(open);
    // It closes a moment later, and others come before that.
    forget(greedy, latest);
    latest.destroy();
  });
}

function latestOfMost(open: ReadonlyMap<string, ReadonlySet<Socket>>): readonly [string, Socket] {
  let found: readonly [string, ReadonlySet<Socket>] = ["", new Set()];
  for (const one of open) if (one[1].size > found[1].size) found = one;
  return [found[0], [...found[1]].at(-1) as Socket];
}
