import { PAGE_FILE, readPageFile } from "../page-file.ts";
import type { NodeStatus, TracedInterface } from "../shape.ts";
import { describeChains } from "./describe-chains.ts";
import { describeNode } from "./describe-node.ts";
import type { PageSnapshot } from "./page-shape.ts";

/**
 * The status page as a file of its own that shows one moment: what the status socket served, in the page.
 * @param traced the interfaces of the pods whose chains can be opened in it
 * @throws Failure `part-missing` where the page was not built
 */
export async function pageWithSnapshot(
  status: NodeStatus,
  traced: readonly TracedInterface[],
  file: string = PAGE_FILE,
): Promise<string> {
  const { html, policy } = await readPageFile(file);
  const { view, pods } = await describeNode(status);
  const chains = [...pods].flatMap(([id, { namespace, name }]) => {
    const own = traced.filter(({ pod }) => pod.namespace === namespace && pod.name === name);
    return own.length === 0 ? [] : [[id, describeChains({ namespace, name }, own)] as const];
  });
  const snapshot: PageSnapshot = { node: view, chains: Object.fromEntries(chains) };
  // A browser reports an error for frame-ancestors in a document (CSP level 3, section 6.4.2).
  const rules = policy.replace("; frame-ancestors 'none'", "");
  return html
    .replace("<head>", () => `<head>\n<meta http-equiv="Content-Security-Policy" content="${rules}">`)
    .replace(
      "<script>",
      () => `<script type="application/json" id="snapshot">${embedded(snapshot)}</script>\n<script>`,
    );
}

/** JSON in which no text can end the element that holds it. */
function embedded(value: PageSnapshot): string {
  return JSON.stringify(value).replaceAll("<", "\\u003c");
}
