import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { isCollection, isMap, isScalar, type Pair, parseDocument, stringify, type YAMLMap } from "yaml";

const VALUES = resolve(import.meta.dirname, "../../deploy/chart/kube-vhostuser/values.yaml");

const INTRODUCTION = `# Helm chart of kube-vhostuser

The chart installs the node daemon as a DaemonSet with its configuration and, optionally, networks, policies and objects for
monitoring. [docs/install.md](../../../docs/install.md) describes requirements, installation and removal.

    kubectl create namespace kube-vhostuser
    kubectl label namespace kube-vhostuser pod-security.kubernetes.io/enforce=privileged
    kubectl label node NODE kube-vhostuser/switch=ovs-dpdk    # each node with the switch
    helm install kube-vhostuser deploy/chart/kube-vhostuser --namespace kube-vhostuser
    helm test kube-vhostuser --namespace kube-vhostuser --logs

This is in a checkout. Releases are at \`oci://ghcr.io/kube-vhostuser/charts/kube-vhostuser\`; there is none yet.

Unknown values are refused (\`values.schema.json\`), and so are unknown keys of \`config\`. This page is generated from the
comments in \`values.yaml\` by \`npm run docs\`.

| value | default | meaning |
| --- | --- | --- |
`;

/** Values that are one thing, whatever is in them. */
const WHOLE = new Set(["config", "resources", "nodeSelector", "monitoring.dashboard.labels"]);

/** The text of the chart's README.md. */
export function chartReadme(): string {
  const document = parseDocument(readFileSync(VALUES, "utf8"));
  if (!isMap(document.contents)) throw new Error(`${VALUES} is no map`);
  return `${INTRODUCTION}${rows(document.contents, "", document.commentBefore ?? "").join("\n")}\n`;
}

/** @param first comment of the first key, which the parser takes for the map's own */
function rows(map: YAMLMap, prefix: string, first: string): string[] {
  return map.items.flatMap((pair, index) => {
    const key = `${prefix}${String(keyOf(pair))}`;
    const comment = words((index === 0 ? first : undefined) || commentOf(pair));
    const { value } = pair;
    if (isMap(value) && value.items.length > 0 && !WHOLE.has(key)) {
      const inner = rows(value, `${key}.`, value.commentBefore ?? "");
      return comment === "" ? inner : [row(key, "", comment), ...inner];
    }
    return [row(key, key === "config" ? "see `values.yaml`" : shown(value), comment)];
  });
}

function row(...cells: readonly [key: string, value: string, meaning: string]): string {
  const [key, ...others] = cells;
  return `| \`${key}\` |${others.map((cell) => (cell === "" ? " |" : ` ${cell} |`)).join("")}`;
}

function keyOf({ key }: Pair): unknown {
  return isScalar(key) ? key.value : key;
}

function commentOf({ key }: Pair): string {
  return (isScalar(key) && key.commentBefore) || "";
}

function words(comment: string): string {
  return comment.replace(/\s+/g, " ").trim().replaceAll("|", "\\|");
}

function shown(value: unknown): string {
  const plain = isCollection(value) || isScalar(value) ? value.toJSON() : value;
  if (typeof plain === "string") return plain === "" ? '`""`' : `\`${plain}\``;
  return `\`${typeof plain === "object" ? JSON.stringify(plain) : stringify(plain).trim()}\``;
}
