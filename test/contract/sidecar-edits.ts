/** Comments, CDATA and instructions by number, so that nothing in them is taken for an element. */
export function hideOpaque(xml: string): string {
  const seen = new Map<string, number>();
  return xml.replace(/<!--[\s\S]*?-->|<!\[CDATA\[[\s\S]*?\]\]>|<\?[\s\S]*?\?>/g, (opaque) => {
    const number = seen.get(opaque) ?? seen.size;
    seen.set(opaque, number);
    return `\u0001${number}${opaque.length}\u0001`;
  });
}

/**
 * A domain without everything that the sidecar owns, each with the white space that came with it: of two texts that
 * are alike without it, one may be the sidecar's answer to the other.
 * @param prefix what the names of the sidecar's interfaces begin with, before a digit
 */
export function withoutSidecarEdits(xml: string, prefix: string): string {
  const inside = "(?:(?!</interface>)[\\s\\S])*";
  const ours = new RegExp(
    `(\\r?\\n[ \\t]*)?<interface\\b${inside}?ua-${prefix}\\d${inside}</interface>`,
    "g",
  );
  return hideOpaque(xml)
    .replace(ours, "")
    .replace(/(\r?\n[ \t]*)?<qemu:override\b[\s\S]*?<\/qemu:override>/g, "")
    .replace(/ memAccess=["']shared["']/g, "")
    .replace(/(\r?\n[ \t]*)?<(access mode="shared"|source type="memfd"|ioapic driver="qemu")><\/\w+>/g, "")
    .replace(
      /(\r?\n[ \t]*)?<iommu model="intel">\s*<driver intremap="on" iotlb="on"><\/driver>\s*<\/iommu>/g,
      "",
    )
    .replace(/(\r?\n[ \t]*)?<(memoryBacking|features|devices)\s*(\/>|>\s*<\/\2>)/g, "");
}
