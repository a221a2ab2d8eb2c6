import { describe, expect, it } from "vitest";
import { commandFaults } from "./documents/command-faults.ts";
import { dataFaults } from "./documents/data-faults.ts";
import { parseDocument, projectDocuments } from "./documents/document.ts";
import { linkFaults, unreachable } from "./documents/link-faults.ts";
import { nameFaults } from "./documents/name-faults.ts";

const documents = projectDocuments();
const bad = (text: string) => parseDocument("docs/bad.md", text);
const fenced = (language: string, text: string) => bad(`# Bad\n\n\`\`\`${language}\n${text}\n\`\`\`\n`);

describe("a document with a fault is refused", () => {
  it.each([
    ["a missing file", "[a](missing.md)"],
    ["a missing picture", '<img src="images/missing.svg">'],
    ["a missing heading", "[a](errors.md#no-such-heading)"],
    ["a missing heading of its own", "# One\n\n[a](#two)"],
    ["a file outside", "[a](../../etc/passwd)"],
    ["a path from the root", "[a](/docs/errors.md)"],
    ["an unknown host", "[a](https://example.com/a)"],
    ["an address without encryption", "[a](http://kubernetes.io/docs)"],
    ["a malformed address", "[a](https://kubernetes.io:port/)"],
    ["a query", "[a](https://github.com/search?q=x)"],
  ])("links: %s", (_, text) => {
    expect(linkFaults(bad(text), documents)).toHaveLength(1);
  });

  it.each([
    ["a script", "`npm run fly`"],
    ["a script's flag", "`npm run demo -- --fast`"],
    ["a suite", "`npm run bench -- --only=coffee`"],
    ["a command", "`vhostuserctl explain`"],
    ["a command's flag", "`vhostuserctl status --verbose`"],
    ["a short flag", "`vhostuserctl trace web -q`"],
    ["the program's own flag", "`vhostuserctl --verbose`"],
    [
      "a command by the program's file",
      "`kubectl exec POD -- /opt/kube-vhostuser/dist/ctl/main.mjs explain`",
    ],
    ["the daemon's flag", "`dist/daemon/main.mjs --port 1`"],
    ["a program", "`dist/operator/main.mjs`"],
    ["a label of our pods", "`kubectl -n kube-vhostuser get pod -l app=kube-vhostuser`"],
    ["a container of our pods", "`kubectl -n kube-vhostuser logs POD -c deamon`"],
    ["a flag behind a line's end", "    vhostuserctl status \\\n      --verbose\n"],
  ])("commands: %s", (_, text) => {
    expect(commandFaults(bad(`# Bad\n\n${text}\n`))).toHaveLength(1);
  });

  it("commands: what no shell reads", () => {
    expect(commandFaults(fenced("sh", "kubectl get pod <name>"))).toHaveLength(1);
  });

  it.each([
    ["a metric", "vhostuser_coffees_total"],
    ["a metric in a query", "    rate(vhostuser_cni_requests[5m]) > 0"],
    ["a configuration key", "`reclaim.intervalMinutes`"],
    ["a pool's key", "`pools[].directory.colour`"],
    ["a key at the top", "`switchRoots`"],
    ["an error code", "`bridge-mising`"],
    ["an annotation", "`vhostuser/interface`"],
    ["Multus' annotation", "`k8s.v1.cni.cncf.io/resource-name`"],
    ["a variable", "VHOSTUSER_LOGLEVEL"],
    ["a file", "`test/lab/flow.ts`"],
    ["a file in a command", "    kubectl apply -f deploy/missing.yaml"],
    ["a test", "`migrations.test.ts`"],
  ])("names: %s", (_, text) => {
    expect(nameFaults(bad(`# Bad\n\n${text}\n`))).toHaveLength(1);
  });

  const network = (config: string, annotations = "k8s.v1.cni.cncf.io/resourceName: vhostuser/sockets") =>
    `kind: NetworkAttachmentDefinition\nmetadata: { name: n, annotations: { ${annotations} } }\nspec: { config: '${config}' }`;
  const vm = (values: string) =>
    `kind: VirtualMachine\nspec:\n  template:\n    spec:\n      domain: { devices: { interfaces: [{ name: net1, binding: { name: vhostuser }${values} }] } }\n      networks: [{ name: net1, multus: { networkName: n } }]`;

  it.each([
    ["YAML", "yaml", "a: [1"],
    ["JSON", "json", "{"],
    ["a key of the daemon", "yaml", "pools: [{ name: a, capacity: 1, colour: red }]"],
    ["the same in the chart's values", "yaml", "config: { pools: [{ name: a, capacity: 1, colour: red }] }"],
    ["a network's value", "json", '{"cniVersion":"1.1.0","name":"n","type":"kube-vhostuser","mtu":12}'],
    [
      "a key of another plugin",
      "yaml",
      network('{"cniVersion":"1.1.0","name":"n","type":"kube-vhostuser","vlanId":3}'),
    ],
    [
      "a network without its resource",
      "yaml",
      network('{"cniVersion":"1.1.0","name":"n","type":"kube-vhostuser"}', ""),
    ],
    ["a VM's model", "yaml", vm(", model: e1000e")],
    [
      "an interface's settings",
      "yaml",
      `metadata: { annotations: { vhostuser/interfaces: '{"net1": {"queue": 2}}' } }`,
    ],
  ])("data: %s", (_, language, text) => {
    expect(dataFaults(fenced(language, text))).toHaveLength(1);
  });

  it("data: and the same without a fault is taken", () => {
    const config = '{"cniVersion":"1.1.0","name":"n","type":"kube-vhostuser","mtu":1500}';
    expect(dataFaults(fenced("yaml", network(config)))).toEqual([]);
    expect(dataFaults(fenced("yaml", vm("")))).toEqual([]);
  });

  it("a document that nothing links to is told", () => {
    expect(unreachable([...documents, bad("# Bad")], "README.md")).toContain("docs/bad.md");
  });
});
