import type { IncomingMessage } from "node:http";
import { isLoopback } from "../../names/ip-address.ts";
import { type Page, text } from "../../observe/http-server.ts";

/**
 * Refuses what the page itself would not send. Any name may be made to resolve to a loopback address (DNS rebinding), so
 * the Host must be a loopback address or `localhost`; its port may be any, since kubectl port-forward has one of its own.
 * What another site's page asks for is refused by the headers with which browsers say so (Fetch Metadata, W3C), but for
 * a plain link to the page.
 */
export function refuseStrangers({
  headers,
  url,
}: Pick<IncomingMessage, "headers" | "url">): Page | undefined {
  if (!isOwnHost(headers.host)) {
    return text(421, "the Host must be localhost or a loopback address; see docs/status-page.md\n");
  }
  const site = headers["sec-fetch-site"];
  if (site === undefined || site === "same-origin" || site === "none") return undefined;
  const isLink =
    url === "/" && headers["sec-fetch-mode"] === "navigate" && headers["sec-fetch-dest"] === "document";
  return isLink ? undefined : text(403, "only the page itself may ask\n");
}

function isOwnHost(host: string | undefined): boolean {
  const [, bracketed, plain = ""] =
    /^(?:\[([\da-fA-F:.]+)\]|([^:[\]]+))(?::\d{1,5})?$/.exec(host ?? "") ?? [];
  const name = bracketed ?? plain;
  return name.toLowerCase() === "localhost" || isLoopback(name);
}
