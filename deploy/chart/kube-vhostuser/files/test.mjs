// What `helm test` runs in the chart's image: each node that the DaemonSet selects has a ready daemon, and devices of each
// pool. It prints a line for each node, and ends with 1 if a node still has a problem after WAIT_SECONDS.
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

const { KUBERNETES_SERVICE_HOST: host = "", KUBERNETES_SERVICE_PORT: port, ...settings } = process.env;
const { NAMESPACE, DAEMONSET, POD_LABELS = "", NODE_LABELS, RESOURCES = "", TOKEN_FILE = "" } = settings;
const server = `https://${host.includes(":") ? `[${host}]` : host}:${port}`;
const token = readFileSync(TOKEN_FILE, "utf8").trim();

async function get(path) {
  const headers = { authorization: `Bearer ${token}` };
  const response = await fetch(server + path, { headers, signal: AbortSignal.timeout(10_000) });
  const body = await response.json();
  if (!response.ok) throw new Error(body.message ?? response.status);
  return body;
}

/** @returns lines about nodes, and whether one has a problem */
async function checkNodes() {
  const { status } = await get(`/apis/apps/v1/namespaces/${NAMESPACE}/daemonsets/${DAEMONSET}`);
  const wanted = status?.desiredNumberScheduled ?? 0;
  if (wanted === 0) return problem(`no node has the labels ${NODE_LABELS}: label the nodes with a switch`);
  const { items } = await get(
    `/api/v1/namespaces/${NAMESPACE}/pods?labelSelector=${encodeURIComponent(POD_LABELS)}`,
  );
  const pods = items.filter(({ metadata, spec }) => !metadata.deletionTimestamp && spec.nodeName);
  const checks = await Promise.all(pods.map(checkNode));
  if (pods.length < wanted) {
    const cure = `see kubectl -n ${NAMESPACE} describe daemonset ${DAEMONSET}`;
    checks.push(problem(`${pods.length} of ${wanted} nodes have a pod: ${cure}`));
  }
  return { lines: checks.flatMap(({ lines }) => lines).sort(), isBad: checks.some(({ isBad }) => isBad) };
}

async function checkNode({ metadata, spec, status }) {
  const pod = `kubectl -n ${NAMESPACE} %s ${metadata.name}`;
  const isReady = status?.conditions?.some((one) => one.type === "Ready" && one.status === "True");
  if (!isReady) return problem(`${spec.nodeName}: daemon not ready: see ${pod.replace("%s", "describe pod")}`);
  const { allocatable = {} } = (await get(`/api/v1/nodes/${spec.nodeName}`)).status ?? {};
  const resources = RESOURCES.split(" ").filter((resource) => resource !== "");
  const counts = resources.map((resource) => [resource, Number(allocatable[resource] ?? 0)]);
  const line = [`${spec.nodeName}: ready`, ...counts.map(([resource, count]) => `${count} ${resource}`)].join(", ");
  if (counts.every(([, count]) => count > 0)) return { lines: [line], isBad: false };
  return problem(`${line}: see ${pod.replace("%s", "exec")} -- vhostuserctl doctor`);
}

function problem(line) {
  return { lines: [line], isBad: true };
}

const end = Date.now() + Number(settings.WAIT_SECONDS) * 1000;
for (;;) {
  const { lines, isBad } = await checkNodes().catch(({ message, cause }) =>
    problem(`API server: ${message}${cause ? `: ${cause.message}` : ""}`),
  );
  if (!isBad || Date.now() >= end) {
    for (const line of lines) console.log(line);
    process.exit(isBad ? 1 : 0);
  }
  await delay(2_000);
}
