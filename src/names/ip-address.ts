/** The four bytes of an IPv4 address. */
export function ipv4Bytes(address: string): Buffer {
  return Buffer.from(address.split(".").map(Number));
}

/** The 16 bytes of an IPv6 address in any form that RFC 4291 section 2.2 allows; a zone is of the node, not of it. */
export function ipv6Bytes(address: string): Buffer {
  const [own = ""] = address.split("%");
  const words = own.replace(/[\d.]+\.\d+$/, (dotted) =>
    ipv4Bytes(dotted).toString("hex").replace(/^.{4}/, "$&:"),
  );
  const [head = [], tail = []] = words.split("::").map((part) => part.split(":").filter(Boolean));
  const zeros = new Array<string>(Math.max(0, 8 - head.length - tail.length)).fill("0");
  return Buffer.from([...head, ...zeros, ...tail].map((word) => word.padStart(4, "0")).join(""), "hex");
}
