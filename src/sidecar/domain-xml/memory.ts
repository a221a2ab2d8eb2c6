import type { Failure } from "../../failure/failure.ts";
import { childrenNamed, type DomainDocument, firstChild } from "./document.ts";
import { addAttribute, appendChild, childIndent, deeper, type Edit } from "./edits.ts";
import { invalidDomain } from "./scan.ts";

const SOURCE = '<source type="memfd"></source>';
const ACCESS = '<access mode="shared"></access>';

/**
 * The edits that let the switch map the guest's memory: shared access, and memfd where nothing else says what the
 * memory is made of, because without a source libvirt would put shared memory into a file on disk.
 * @throws Failure `invalid-domain` where the domain asks for private memory
 */
export function editMemory(document: DomainDocument): Edit[] {
  refusePrivateModules(document);
  return [...editBacking(document), ...editCells(document)];
}

function editBacking({ text, root }: DomainDocument): Edit[] {
  const backing = firstChild(root, "memoryBacking");
  if (backing === undefined) {
    const indent = childIndent(text, root);
    const inner = deeper(indent);
    const xml = `<memoryBacking>${inner}${SOURCE}${inner}${ACCESS}${indent}</memoryBacking>`;
    return [appendChild(text, root, xml)];
  }
  const access = firstChild(backing, "access");
  const mode = access?.attributes.get("mode");
  if (access !== undefined && mode !== "shared") {
    throw conflict(`<access mode=${JSON.stringify(mode ?? "")}>`, "<memoryBacking>");
  }
  if (firstChild(backing, "source")?.attributes.get("type") === "anonymous") {
    throw conflict('<source type="anonymous">', "<memoryBacking>");
  }
  // Memory of hugepages without a source is a file on hugetlbfs, which is shared as well as memfd is.
  const needsSource = ["source", "hugepages"].every((name) => firstChild(backing, name) === undefined);
  const added = [...(needsSource ? [SOURCE] : []), ...(access === undefined ? [ACCESS] : [])];
  if (added.length === 0) return [];
  return [appendChild(text, backing, added.join(childIndent(text, backing)))];
}

function editCells({ text, root }: DomainDocument): Edit[] {
  const edits: Edit[] = [];
  const cells = childrenNamed(firstChild(firstChild(root, "cpu"), "numa"), "cell");
  for (const [index, cell] of cells.entries()) {
    const access = cell.attributes.get("memAccess");
    if (access === undefined) edits.push(addAttribute(text, cell, "memAccess", "shared"));
    else if (access !== "shared") {
      throw conflict(
        `memAccess=${JSON.stringify(access)}`,
        `<numa>, cell ${cell.attributes.get("id") ?? index}`,
      );
    }
  }
  return edits;
}

/** Memory modules without `access` have that of their NUMA cell. */
function refusePrivateModules({ root }: DomainDocument): void {
  for (const module of childrenNamed(firstChild(root, "devices"), "memory")) {
    const access = module.attributes.get("access") ?? "shared";
    if (access !== "shared") throw conflict(`<memory access=${JSON.stringify(access)}>`, "<devices>");
  }
}

function conflict(found: string, place: string): Failure {
  return invalidDomain(
    `the domain has ${found}, but a vhost-user interface needs memory that the switch can share`,
    place,
    "remove what asks for private memory: an annotation, or a hook sidecar before this one",
  );
}
