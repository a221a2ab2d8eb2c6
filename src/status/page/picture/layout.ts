import type { PageBridge, PageInterface, PageNode, PagePod } from "../page-shape.ts";

/** A rectangle in pixels. */
export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Where the four columns are. */
export interface Columns {
  readonly pod: { readonly x: number; readonly width: number };
  /** The middle of the sockets. */
  readonly socket: number;
  readonly port: { readonly x: number; readonly width: number };
  readonly bridge: { readonly x: number; readonly width: number };
}

export interface PlacedInterface {
  readonly of: PageInterface;
  /** The middle of its row. */
  readonly y: number;
  /** Where its line meets the bridge's box; undefined where it is on no bridge. */
  readonly bridgeY: number | undefined;
}

export interface PlacedPod extends Box {
  readonly of: PagePod;
  readonly rows: readonly PlacedInterface[];
}

export interface PlacedBridge extends Box {
  readonly of: PageBridge;
  readonly ports: number;
}

/** Everything that is drawn, with its place. */
export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly columns: Columns;
  readonly pods: readonly PlacedPod[];
  readonly bridges: readonly PlacedBridge[];
}

/** Narrower than that the picture scrolls instead. */
export const MIN_WIDTH = 720;
/** Room for the columns' headings. */
const HEAD = 26;
const TITLE = 34;
const ROW = 34;
const FOOT = 8;
const GAP = 14;
const GROUP_GAP = 26;
const BRIDGE_HEIGHT = 108;
/** From a bridge's edge to the first line that comes from elsewhere, and between two of them. */
const EDGE = 12;
const STEP = 5;

/**
 * Pure: places pods from top to bottom, grouped by the bridge that their first interface is on, and each bridge beside
 * its group, so that nearly all lines are straight.
 */
export function layOut({ pods, bridges }: Pick<PageNode, "pods" | "bridges">, available: number): Layout {
  const width = Math.max(MIN_WIDTH, Math.floor(available));
  const columns = columnsOf(width);
  const groups = Map.groupBy(pods, homeOf);
  const order = [...bridges.map(({ id }) => id), undefined];
  const placedPods: PlacedPod[] = [];
  const boxes = new Map<string, Box>();
  let y = HEAD;
  for (const id of order) {
    const group = groups.get(id) ?? [];
    const top = y;
    for (const pod of group) {
      const placed = placePod(pod, columns.pod, y);
      placedPods.push(placed);
      y += placed.height + GAP;
    }
    if (group.length > 0) y -= GAP;
    if (id !== undefined) {
      const height = Math.max(BRIDGE_HEIGHT, y - top);
      boxes.set(id, { ...columns.bridge, y: top, height });
      y = top + height;
    }
    if (id !== undefined || group.length > 0) y += GROUP_GAP;
  }
  return {
    width,
    height: Math.max(HEAD + BRIDGE_HEIGHT, y - GROUP_GAP) + 2,
    columns,
    pods: meetBridges(placedPods, boxes),
    bridges: bridges.flatMap((of) => {
      const box = boxes.get(of.id);
      const on = (one: PageInterface) => one.bridge === of.id && one.port !== undefined;
      const ports = pods.reduce((sum, pod) => sum + pod.interfaces.filter(on).length, 0);
      return box === undefined ? [] : [{ ...box, of, ports }];
    }),
  };
}

function columnsOf(width: number): Columns {
  const inner = width - 2;
  const pod = Math.min(380, Math.round(inner * 0.31));
  const port = Math.min(216, Math.round(inner * 0.23));
  const bridge = Math.min(240, Math.round(inner * 0.19));
  const gaps = inner - pod - port - bridge;
  const portX = 1 + pod + Math.round(gaps * 0.58);
  return {
    pod: { x: 1, width: pod },
    socket: 1 + pod + Math.round(gaps * 0.16),
    port: { x: portX, width: port },
    bridge: { x: width - 1 - bridge, width: bridge },
  };
}

function homeOf({ interfaces }: PagePod): string | undefined {
  return interfaces.find(({ bridge }) => bridge !== undefined)?.bridge;
}

function placePod(of: PagePod, { x, width }: Columns["pod"], y: number): PlacedPod {
  return {
    of,
    ...{ x, y, width, height: TITLE + of.interfaces.length * ROW + FOOT },
    rows: of.interfaces.map((one, index) => ({
      of: one,
      y: y + TITLE + index * ROW + ROW / 2,
      bridgeY: undefined,
    })),
  };
}

/** Lines of the bridge's own rows go straight; those from above or below are kept apart at its edge. */
function meetBridges(pods: readonly PlacedPod[], boxes: ReadonlyMap<string, Box>): PlacedPod[] {
  const taken = new Map<string, number>();
  const meet = ({ of, y }: PlacedInterface): number | undefined => {
    const box = of.bridge === undefined ? undefined : boxes.get(of.bridge);
    if (box === undefined) return undefined;
    const [top, bottom] = [box.y + EDGE, box.y + box.height - EDGE];
    if (y >= top && y <= bottom) return y;
    const edge = `${of.bridge} ${y < top}`;
    const offset = Math.min((taken.get(edge) ?? 0) * STEP, box.height / 2 - EDGE);
    taken.set(edge, (taken.get(edge) ?? 0) + 1);
    return y < top ? top + offset : bottom - offset;
  };
  return pods.map((pod) => ({ ...pod, rows: pod.rows.map((row) => ({ ...row, bridgeY: meet(row) })) }));
}
