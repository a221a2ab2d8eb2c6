import type { LinkName } from "../../diagnosis/link.ts";
import type { Health, PageInterface } from "../page-shape.ts";

/** The three lines of an interface in the picture: pod to socket, socket to port, port to bridge. */
const SEGMENTS = ["socket", "peer", "port"] as const;

export type Segment = (typeof SEGMENTS)[number];

/** `unknown` where there is nothing to show, or it cannot be read. */
export type SegmentState = "ok" | "waiting" | "broken" | "unknown";

/** How the lines of one interface are drawn. */
export interface DrawnSegments {
  readonly states: Readonly<Record<Segment, SegmentState>>;
  /** Where its chain breaks. */
  readonly mark?: { readonly at: Segment; readonly name: LinkName; readonly health: Health };
}

/** Which line a link of the chain is on. */
const SEGMENT_OF: Readonly<Record<LinkName, Segment>> = {
  pod: "socket",
  allocation: "socket",
  directory: "socket",
  "device-info": "socket",
  record: "socket",
  port: "port",
  socket: "socket",
  connected: "peer",
  link: "peer",
  queues: "peer",
};

/** Pure: the state of each line by what is known, and where the chain breaks, which wins. */
export function segmentsOf(one: PageInterface): DrawnSegments {
  const { port, socket, broken, health } = one;
  const states: Record<Segment, SegmentState> = {
    socket: socket === "socket" ? "ok" : "unknown",
    peer: port === undefined ? "unknown" : port.connected && port.link === "up" ? "ok" : "waiting",
    port: port === undefined ? "unknown" : port.error === undefined ? "ok" : "broken",
  };
  if (broken === undefined || health === "healthy") return { states };
  const at = SEGMENT_OF[broken.name];
  states[at] = health === "broken" ? "broken" : "waiting";
  return { states, mark: { at, name: broken.name, health } };
}
