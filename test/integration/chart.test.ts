import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { CHART, renderChart, renderedFiles, stampedFiles } from "../../scripts/build/render-manifests.ts";
import { parseNetworkConfig } from "../../src/cni/network-config.ts";
import { driverConfigSchema } from "../../src/cni-dra/driver-config.ts";
import { CNI_DRIVER } from "../../src/cni-dra/plan-interfaces.ts";
import { parseConfig } from "../../src/config/load.ts";
import type { DaemonConfig } from "../../src/config/schema.ts";
import { DRA_DRIVER } from "../../src/dra/dra-context.ts";
import { kubernetesTools } from "../machine/kubernetes-tools.ts";
import { runProgram } from "../machine/run-program.ts";
import { openManifestCheck } from "../manifests/check-manifest.ts";
import { type Manifest, parseManifests, TOP, theOnly } from "../manifests/manifest.ts";
import { isMounted, mountsOf, tokensOf } from "../manifests/privileges.ts";
import { BY_DEFAULT, COMBINATIONS, type Values } from "./chart-values.ts";

const check = openManifestCheck();

const render = async (values: Values, chart = CHART) =>
  parseManifests(await renderChart(values, chart), "helm template");
const podOf = (manifests: readonly Manifest[]) => named(manifests, "DaemonSet")["spec"].template.spec;
/** The object of a kind that has the name of the daemon's objects, and more after it. */
function named(manifests: readonly Manifest[], kind: string, suffix = ""): Manifest {
  const ofKind = manifests.filter((one) => one.kind === kind);
  const shortest = Math.min(
    ...manifests.filter((one) => one.kind === "DaemonSet").map(({ metadata: { name } }) => name.length),
  );
  return theOnly(
    ofKind.filter(({ metadata: { name } }) => name.slice(shortest) === suffix),
    kind,
  );
}
/** Names of the roles whose rights a pod's account has. */
function rolesOf(
  manifests: readonly Manifest[],
  { serviceAccountName }: { readonly serviceAccountName: string },
): string[] {
  return manifests
    .filter(
      ({ kind, ...one }) =>
        /RoleBinding$/.test(kind) &&
        one["subjects"].some(({ name }: { name: string }) => name === serviceAccountName),
    )
    .map(({ roleRef }) => roleRef.name);
}
const kindsOf = (manifests: readonly Manifest[]) => manifests.map(({ kind }) => kind).sort();

/** The configuration as the daemon reads it. */
function configOf(manifests: readonly Manifest[]): DaemonConfig {
  return parseConfig(configMap(manifests), "config.yaml", "node-1");
}
const configMap = (manifests: readonly Manifest[]): string =>
  named(manifests, "ConfigMap")["data"]["config.yaml"];

describe.each(Object.entries(COMBINATIONS))("the chart with %s", (_, { values, kinds = BY_DEFAULT }) => {
  let manifests: Manifest[];
  beforeAll(async () => {
    manifests = await render(values);
  });

  it("makes objects that the API server's schemas allow", () => {
    for (const one of manifests) expect(check(one), `${one.kind} ${one.metadata.name}`).toEqual([]);
    expect(kindsOf(manifests)).toEqual([...kinds].sort());
  });

  it("gives the daemon a right at the API server, and a token, for events and claims and nothing else", () => {
    const usesApi = "events" in values || "dra" in values;
    expect(rolesOf(manifests, podOf(manifests)).length > 0).toBe(usesApi);
    expect(tokensOf(podOf(manifests))).toEqual(usesApi ? ["daemon"] : []);
    for (const one of manifests.filter(({ kind }) => kind === "ServiceAccount"))
      expect(one["automountServiceAccountToken"]).toBe(false);
  });

  it("gives the daemon a configuration that it accepts, and mounts what it names", () => {
    const config = configOf(manifests);
    const [daemon] = podOf(manifests).containers;
    const mounts = mountsOf(daemon);
    const {
      root,
      recordsDirectory,
      cniSocket,
      statusSocket = cniSocket,
      deviceInfoDirectory,
      kubelet,
      dra,
    } = config;
    const written = [
      root,
      recordsDirectory,
      dirname(cniSocket),
      dirname(statusSocket),
      deviceInfoDirectory,
    ].concat(kubelet.devicePlugins);
    if (dra.enabled)
      written.push(join(kubelet.plugins, DRA_DRIVER), kubelet.pluginsRegistry, dra.cdiDirectory);
    const connected = [kubelet.podResources].concat(
      config.pools.flatMap(({ dataplane }) =>
        dataplane.type === "vpp"
          ? [dataplane.apiSocket]
          : [dataplane.database, dataplane.runDirectory ?? dataplane.database],
      ),
    );
    expect([...written, ...connected].filter((path) => !isMounted(path, mounts))).toEqual([]);
    expect(
      mounts
        .filter(({ readOnly }) => !readOnly)
        .map(({ path }) => path)
        .sort(),
    ).toEqual([...new Set(written)].sort());
    expect(daemon.ports[0].containerPort).toBe(config.observe.port);
    const volumes = podOf(manifests).volumes.map(({ name }: { name: string }) => name);
    expect(volumes).toEqual([...new Set(volumes)]);
  });
});

it("the chart rolls the DaemonSet when the configuration changes, and only then", async () => {
  const checksum = async (values: Values) =>
    theOnly(await render(values), "DaemonSet")["spec"].template.metadata.annotations["checksum/config"];
  const [one, same, other, added] = await Promise.all([
    checksum({}),
    checksum({ cni: { install: false } }),
    checksum({ config: { announce: false } }),
    checksum({ config: { statusPage: { enabled: true } } }),
  ]);
  expect(one).toMatch(/^[0-9a-f]{64}$/);
  expect(same).toBe(one);
  expect(new Set([one, other, added]).size).toBe(3);
});

it("the chart mounts the directories of switches that only running pods still use", async () => {
  const [daemon] = podOf(await render({ formerSwitchDirectories: ["/run/vpp"] })).containers;
  expect(mountsOf(daemon)).toContainEqual(expect.objectContaining({ path: "/run/vpp", readOnly: true }));
});

it("the chart uses a ServiceAccount that exists already", async () => {
  const manifests = await render({
    serviceAccount: { create: false, name: "existing" },
    events: { enabled: true },
    openshift: { enabled: true },
  });
  expect(kindsOf(manifests)).not.toContain("ServiceAccount");
  expect(podOf(manifests).serviceAccountName).toBe("existing");
  expect(theOnly(manifests, "ClusterRoleBinding")["subjects"]).toMatchObject([{ name: "existing" }]);
  expect(theOnly(manifests, "SecurityContextConstraints")["users"]).toEqual([
    "system:serviceaccount:kube-vhostuser:existing",
  ]);
});

it("the chart gives the daemon more variables and volumes, whose kinds OpenShift's constraints allow", async () => {
  const manifests = await render({
    extraEnv: [{ name: "TZ", value: "UTC" }],
    extraVolumes: [{ name: "zones", secret: { secretName: "zones" } }],
    extraVolumeMounts: [{ name: "zones", mountPath: "/usr/share/zoneinfo", readOnly: true }],
    openshift: { enabled: true },
  });
  for (const one of manifests) expect(check(one), one.kind).toEqual([]);
  const { containers, volumes } = podOf(manifests);
  expect(containers[0].env).toContainEqual({ name: "TZ", value: "UTC" });
  expect(mountsOf(containers[0])).toContainEqual({ path: "/usr/share/zoneinfo", readOnly: true });
  expect(volumes).toContainEqual({ name: "zones", secret: { secretName: "zones" } });
  const constraints = theOnly(manifests, "SecurityContextConstraints");
  expect(constraints["volumes"]).toEqual(["configMap", "hostPath", "secret"]);
});

describe("the chart with events", () => {
  it("gives the daemon's container alone a token, and the right to write events", async () => {
    const manifests = await render({ events: { enabled: true } });
    expect(theOnly(manifests, "ClusterRole")["rules"]).toEqual([
      { apiGroups: ["events.k8s.io"], resources: ["events"], verbs: ["create", "patch"] },
    ]);
    const binding = theOnly(manifests, "ClusterRoleBinding");
    const account = theOnly(manifests, "ServiceAccount");
    expect(binding["subjects"]).toEqual([
      { kind: "ServiceAccount", name: account.metadata.name, namespace: account.metadata.namespace },
    ]);
    expect(binding["roleRef"].name).toBe(theOnly(manifests, "ClusterRole").metadata.name);
    expect(tokensOf(podOf(manifests))).toEqual(["daemon"]);
    expect(parse(configMap(manifests)).events).toEqual({ enabled: true });
    expect(theOnly(manifests, "NetworkPolicy")["spec"].egress).toHaveLength(1);
  });
});

describe("the chart with claims", () => {
  it("gives the daemon the rights of a driver on its own node, and no more", async () => {
    const manifests = await render({ dra: { enabled: true } });
    const right = (resource: string, verbs: readonly string[], more = {}) => ({
      ...{ apiGroups: ["resource.k8s.io"], resources: [resource], verbs, ...more },
    });
    expect(theOnly(manifests, "ClusterRole")["rules"]).toEqual([
      right("resourceclaims", ["get"]),
      right("resourceclaims/status", ["patch"]),
      right("resourceclaims/driver", ["associated-node:patch"], { resourceNames: [DRA_DRIVER] }),
      right("resourceslices", ["list", "watch", "create", "update", "delete"]),
      { apiGroups: [""], resources: ["nodes"], verbs: ["get"] },
    ]);
    const account = "system:serviceaccount:kube-vhostuser:kube-vhostuser";
    const policy = theOnly(manifests, "ValidatingAdmissionPolicy");
    expect(policy["spec"].matchConditions[0].expression).toBe(`request.userInfo.username == "${account}"`);
    // The names that slices have (src/dra/resource-slices.ts).
    const rules = policy["spec"].validations.map(({ expression }: { expression: string }) => expression);
    expect(rules).toContain(
      `request.operation != "CREATE" || object.metadata.name.startsWith(variables.node + "-${DRA_DRIVER}-")`,
    );
    expect(rules).toContain("variables.spec.pool.name == variables.node");
    expect(theOnly(manifests, "ValidatingAdmissionPolicyBinding")["spec"].policyName).toBe(
      policy.metadata.name,
    );
    expect(configOf(manifests).dra.enabled).toBe(true);
    expect(podOf(manifests).containers[0].env).toContainEqual({
      name: "POD_UID",
      valueFrom: { fieldRef: { fieldPath: "metadata.uid" } },
    });
    expect(theOnly(manifests, "NetworkPolicy")["spec"].egress).toHaveLength(1);
  });
});

describe("the chart with the driver of CNI plugins", () => {
  it("gives it an account of its own, what claims may use, and slices of its own node and name", async () => {
    const allowedPlugins = { macvlan: ["mode"] };
    const interfaces = [{ name: "eth1", bandwidth: 25_000_000_000 }];
    const manifests = await render({ cniDra: { enabled: true, allowedPlugins, interfaces } });
    const { spec } = named(manifests, "DaemonSet", "-cni-dra")["spec"].template;
    expect([tokensOf(spec), rolesOf(manifests, spec)]).toEqual([["cni-dra"], ["kube-vhostuser-cni-dra"]]);
    expect(tokensOf(podOf(manifests))).toEqual([]);
    const file = named(manifests, "ConfigMap", "-cni-dra")["data"]["config.yaml"];
    expect(driverConfigSchema.parse(parse(file))).toEqual({ allowedPlugins, interfaces });
    const policy = named(manifests, "ValidatingAdmissionPolicy", "-cni-dra")["spec"];
    expect(JSON.stringify(policy.validations)).toContain(CNI_DRIVER);
    expect(policy.matchConditions[0].expression).toBe(
      'request.userInfo.username == "system:serviceaccount:kube-vhostuser:kube-vhostuser-cni-dra"',
    );
  });

  it("gives it the right to post events where they are wanted", async () => {
    const manifests = await render({ cniDra: { enabled: true }, events: { enabled: true } });
    expect(named(manifests, "ClusterRole", "-cni-dra")["rules"]).toContainEqual({
      ...{ apiGroups: ["events.k8s.io"], resources: ["events"], verbs: ["create", "patch"] },
    });
    const [driver] = named(manifests, "DaemonSet", "-cni-dra")["spec"].template.spec.containers;
    expect(driver.args).toContain("--events");
  });

  it("has kubelet probe it where it serves, and OpenShift allow what its pod is", async () => {
    const pod = async (values: Values) => {
      const manifests = await render({ cniDra: { enabled: true, ...values }, openshift: { enabled: true } });
      const constraints = manifests.find(
        ({ kind, metadata }) => kind === "SecurityContextConstraints" && metadata.name.endsWith("-cni-dra"),
      );
      return { ...named(manifests, "DaemonSet", "-cni-dra")["spec"].template.spec, constraints };
    };
    const { containers, volumes, constraints, hostNetwork } = await pod({});
    expect(containers[0].readinessProbe.httpGet).toEqual({ path: "/readyz", port: "metrics" });
    expect(constraints["allowHostNetwork"]).toBe(hostNetwork);
    const kinds = volumes.flatMap(({ name: _, ...volume }: { name: string }) => Object.keys(volume));
    expect([...new Set(kinds)].sort()).toEqual(constraints["volumes"]);
    const { containers: local } = await pod({ metricsAddress: "127.0.0.1" });
    expect(local[0].livenessProbe.httpGet.host).toBe("127.0.0.1");
  });
});

describe("the chart with IPAM", () => {
  const withIpam = (more: Values = {}) => render({ ipam: { enabled: true }, ...more });

  it("gives agent and controller an account each, and no account of them to the daemon", async () => {
    const manifests = await withIpam({ events: { enabled: true } });
    const agent = named(manifests, "DaemonSet", "-ipam-agent")["spec"].template.spec;
    const controller = named(manifests, "Deployment", "-ipam-controller")["spec"].template.spec;
    const programs = [podOf(manifests), agent, controller];
    expect(new Set(programs.map((pod) => pod.serviceAccountName)).size).toBe(3);
    expect(programs.map(tokensOf)).toEqual([["daemon"], ["ipam-agent"], ["ipam-controller"]]);
    expect(programs.map((pod) => rolesOf(manifests, pod))).toEqual([
      ["kube-vhostuser-events"],
      ["kube-vhostuser-ipam-agent"],
      ["kube-vhostuser-ipam-controller", "kube-vhostuser-ipam-controller"],
    ]);
  });

  it("lets no program write what another one owns", async () => {
    const manifests = await withIpam();
    const written = (suffix: string, of = manifests) =>
      named(of, "ClusterRole", suffix)["rules"].flatMap(
        ({ resources, verbs }: { resources: string[]; verbs: string[] }) =>
          verbs.every((verb) => ["get", "list", "watch"].includes(verb)) ? [] : resources,
      );
    const ofAgent = ["addressblocks", "addressblocks/status", "addressallocations"];
    expect(written("-ipam-agent")).toEqual(ofAgent);
    expect(written("-ipam-controller")).toEqual([
      "addressspaces",
      "addresspools",
      "addresspools/status",
      "addressblocks",
      "addressallocations",
      "events",
    ]);
    const withClaims = await render({ ipam: { enabled: true, claims: { enabled: true } } });
    expect(written("-ipam-agent", withClaims)).toEqual([...ofAgent, "ipamclaims/status"]);
    const policy = named(manifests, "ValidatingAdmissionPolicy", "-ipam-agent")["spec"];
    expect(policy.matchConditions[0].expression).toBe(
      'request.userInfo.username == "system:serviceaccount:kube-vhostuser:kube-vhostuser-ipam-agent"',
    );
  });

  it("lets the controller write whereabouts' IPPools in the one namespace that has them, if it imports from it", async () => {
    const manifests = await withIpam();
    const whereabouts = { enabled: true, namespace: "addresses" };
    const importing = await render({ ipam: { enabled: true, whereabouts } });
    const argsOf = (of: readonly Manifest[]) =>
      named(of, "Deployment", "-ipam-controller")["spec"].template.spec.containers[0].args;
    expect(argsOf(importing)).toEqual([...argsOf(manifests), "--whereabouts", "addresses"]);
    const objects = (of: readonly Manifest[]) => of.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    const name = "kube-vhostuser-ipam-controller-whereabouts";
    expect(objects(importing).filter((one) => !objects(manifests).includes(one))).toEqual([
      `Role ${name}`,
      `RoleBinding ${name}`,
    ]);
    const role = named(importing, "Role", "-ipam-controller-whereabouts");
    expect([role.metadata["namespace"], role["rules"]]).toEqual([
      "addresses",
      [
        {
          apiGroups: ["whereabouts.cni.cncf.io"],
          resources: ["ippools"],
          verbs: ["list", "create", "update"],
        },
        {
          apiGroups: ["whereabouts.cni.cncf.io"],
          resources: ["overlappingrangeipreservations", "nodeslicepools"],
          verbs: ["list"],
        },
      ],
    ]);
    const binding = named(importing, "RoleBinding", "-ipam-controller-whereabouts");
    expect([binding.metadata["namespace"], binding["roleRef"].name, binding["subjects"]]).toEqual([
      "addresses",
      name,
      [{ kind: "ServiceAccount", name: "kube-vhostuser-ipam-controller", namespace: "kube-vhostuser" }],
    ]);
  });

  it("makes the claims of VMs without a webhook and certificates, whose outage would stop pods (33)", async () => {
    const manifests = await render({ ipam: { enabled: true, claims: { enabled: true, manage: true } } });
    const kinds = new Set(kindsOf(manifests));
    expect(kinds).toContain("ValidatingAdmissionPolicy");
    const waiting = [
      "MutatingWebhookConfiguration",
      "ValidatingWebhookConfiguration",
      "Certificate",
      "Issuer",
    ];
    expect(waiting.filter((kind) => kinds.has(kind))).toEqual([]);
  });

  it("switches claims on and off for the whole cluster with one value, with all rights to them (37)", async () => {
    const mentions = async (enabled: boolean) => {
      const manifests = await render({ ipam: { enabled: true, claims: { enabled, manage: true } } });
      const argsOf = (kind: string, suffix: string) =>
        named(manifests, kind, suffix)["spec"].template.spec.containers[0].args as string[];
      return {
        agent: argsOf("DaemonSet", "-ipam-agent").includes("--claims"),
        controller: argsOf("Deployment", "-ipam-controller").includes("--claims"),
        rights: JSON.stringify(manifests).includes('"ipamclaims"'),
      };
    };
    expect(await mentions(true)).toEqual({ agent: true, controller: true, rights: true });
    expect(await mentions(false)).toEqual({ agent: false, controller: false, rights: false });
  });

  it("runs the agent without any capability, with the node's directories that it needs and no other", async () => {
    const { containers, initContainers } = named(await withIpam(), "DaemonSet", "-ipam-agent")["spec"]
      .template.spec;
    expect(containers[0].securityContext.capabilities).toEqual({ drop: ["ALL"] });
    expect(mountsOf(containers[0])).toEqual([
      { path: "/var/lib/kube-vhostuser/ipam", readOnly: false },
      { path: "/run/kube-vhostuser", readOnly: false },
      { path: "/run/netns", readOnly: true },
      { path: "/var/run/secrets/kubernetes.io/serviceaccount", readOnly: true },
    ]);
    expect(initContainers.map(({ args }: { args: string[] }) => args)).toEqual([
      ["--executable", "kube-vhostuser-ipam"],
    ]);
    const { containers: bare, initContainers: none } = named(
      await withIpam({ cni: { install: false } }),
      "DaemonSet",
      "-ipam-agent",
    )["spec"].template.spec;
    expect([bare.length, none]).toEqual([1, undefined]);
  });

  it("gives programs command lines that they know", async () => {
    const manifests = await withIpam({ cniDra: { enabled: true } });
    const pods = [
      named(manifests, "DaemonSet", "-cni-dra"),
      named(manifests, "DaemonSet", "-ipam-agent"),
      named(manifests, "Deployment", "-ipam-controller"),
    ];
    for (const { spec } of pods) {
      for (const { command, args } of [
        ...(spec.template.spec.initContainers ?? []),
        ...spec.template.spec.containers,
      ]) {
        const [, program = ""] = /dist\/([a-z-]+)\/main\.mjs$/.exec(command[0]) ?? [];
        const source = join(TOP, program === "cni-installer" ? "src/node-setup" : "src", program, "main.ts");
        // Options that several programs have are in one place.
        const shared = join(TOP, "src/command-line/program.ts");
        const known = (await Promise.all([source, shared].map((file) => readFile(file, "utf8")))).join("");
        for (const option of args.filter((one: string) => one.startsWith("--")))
          expect(known).toContain(`"${option} <`);
      }
    }
  });

  it("keeps the definitions, and with them all addresses, when it is removed", async () => {
    const definitions = (await withIpam()).filter(({ kind }) => kind === "CustomResourceDefinition");
    expect(definitions).toHaveLength(4);
    for (const { metadata } of definitions)
      expect(metadata.annotations).toEqual({ "helm.sh/resource-policy": "keep" });
  });

  it("selects pods of each program without overlap", async () => {
    const manifests = await withIpam({
      cniDra: { enabled: true },
      monitoring: { podMonitor: { enabled: true }, serviceMonitor: { enabled: true } },
    });
    for (const one of manifests) expect(check(one), `${one.kind} ${one.metadata.name}`).toEqual([]);
    const workloads = manifests.filter(({ kind }) => ["DaemonSet", "Deployment"].includes(kind));
    const selected = (selector: Readonly<Record<string, string>>) =>
      workloads
        .filter(({ spec }) =>
          Object.entries(selector).every(([key, value]) => spec.template.metadata.labels[key] === value),
        )
        .map(({ metadata }) => metadata.name);
    for (const { metadata, spec } of workloads)
      expect(selected(spec.selector.matchLabels)).toEqual([metadata.name]);
    const ipam = ["kube-vhostuser-ipam-agent", "kube-vhostuser-ipam-controller"];
    const services = manifests
      .filter(({ kind }) => kind === "Service")
      .map(({ spec }) => selected(spec.selector));
    const driver = ["kube-vhostuser-cni-dra"];
    expect(services).toEqual(expect.arrayContaining([["kube-vhostuser"], ipam, driver]));
    const monitors = manifests
      .filter(({ kind }) => kind === "PodMonitor")
      .map(({ spec }) => selected(spec.selector.matchLabels));
    expect(monitors).toEqual(expect.arrayContaining([["kube-vhostuser"], ipam, driver]));
  });
});

it("the chart sets one key of a pool, adds pools, and leaves its own out where it is null", async () => {
  const pools = async (changes: Values) =>
    parse(configMap(await render({ config: { pools: changes } }))).pools;
  const own = (await pools({})).sockets;
  const vpp = { resource: "vhostuser/vpp", capacity: 1, dataplane: { type: "vpp", bridge: "1" } };
  expect(await pools({ sockets: { dataplane: { bridge: "br0" } }, vpp })).toEqual({
    sockets: { ...own, dataplane: { ...own.dataplane, bridge: "br0" } },
    vpp,
  });
  expect(await pools({ sockets: null, vpp })).toEqual({ vpp });
});

describe("the chart refuses", () => {
  const network = (config: Values) => ({ networks: [{ name: "n", pool: "sockets", config }] });

  it.each<readonly [string, Values, RegExp]>([
    ["an unknown value", { replicas: 2 }, /replicas/],
    ["a key that the daemon does not know", { config: { pool: [] } }, /pool/],
    ["a pool without a switch", { config: { pools: { a: { capacity: 1 } } } }, /dataplane/],
    [
      "two pools of one resource",
      { config: { pools: { b: { capacity: 1, dataplane: { type: "vpp", bridge: "1" } } } } },
      /b and sockets both have the resource vhostuser\/sockets/,
    ],
    ["a list of pools", { config: { pools: [{ name: "a", capacity: 1 }] } }, /pools/],
    ["a label of its own", { podLabels: { "app.kubernetes.io/name": "x" } }, /podLabels must not have/],
    ["one port for two pages", { config: { statusPage: { enabled: true, port: 9417 } } }, /are both 9417/],
    ["events without their right", { config: { events: { enabled: true } } }, /events\.enabled/],
    ["claims without their rights", { config: { dra: { enabled: true } } }, /dra\.enabled/],
    [
      "ports for claims that nothing serves",
      { config: { pools: { sockets: { claims: { ports: 1 } } } } },
      /sockets\.claims needs the value dra\.enabled/,
    ],
    ["a VLAN that does not exist", network({ vlan: 30_000 }), /vlan/],
    ["a key of a network that is mistyped", network({ portSecurty: true }), /portSecurty/],
    ["a network of no pool", { networks: [{ name: "n", pool: "other" }] }, /names pool "other"/],
    ["metrics where probes do not come", { config: { observe: { address: "127.0.0.1" } } }, /probes/],
    ["a second daemon beside the first", { updateStrategy: { rollingUpdate: { maxSurge: 1 } } }, /maxSurge/],
  ])("%s", async (_, values, words) => {
    await expect(renderChart(values)).rejects.toThrow(words);
  });
});

describe("the chart with monitoring", () => {
  it("makes complete objects of its own rules and dashboard, as the API server's schemas allow", async () => {
    const manifests = await render({
      monitoring: { prometheusRule: { enabled: true }, dashboard: { enabled: true } },
    });
    for (const one of manifests) expect(check(one), one.kind).toEqual([]);
    const file = (name: string) => readFile(join(CHART, "files", name), "utf8");
    expect(theOnly(manifests, "PrometheusRule")["spec"]).toEqual(parse(await file("prometheus-rules.yaml")));
    const dashboard = manifests.find(({ metadata }) => metadata.name.endsWith("-dashboard"));
    expect(JSON.parse(dashboard?.["data"]["kube-vhostuser.json"])).toEqual(
      JSON.parse(await file("dashboard.json")),
    );
  });

  it("scrapes the page of interfaces where the daemon serves it, and sets the node everywhere", async () => {
    const endpoints = async (interfaces: boolean) => {
      const manifests = await render({
        config: { observe: { address: "0.0.0.0", interfaces } },
        monitoring: { podMonitor: { enabled: true }, serviceMonitor: { enabled: true } },
      });
      for (const one of manifests) expect(check(one), one.kind).toEqual([]);
      return [
        ...theOnly(manifests, "PodMonitor")["spec"].podMetricsEndpoints,
        ...theOnly(manifests, "ServiceMonitor")["spec"].endpoints,
      ];
    };
    const paths = (all: readonly Values[]) => all.map(({ path }) => path);
    expect(paths(await endpoints(false))).toEqual([undefined, undefined]);
    const all = await endpoints(true);
    expect(paths(all)).toEqual([undefined, "/metrics/interfaces", undefined, "/metrics/interfaces"]);
    const relabelings = [{ sourceLabels: ["__meta_kubernetes_pod_node_name"], targetLabel: "node" }];
    for (const endpoint of all) expect(endpoint).toMatchObject({ port: "metrics", relabelings });
  });
});

it("the chart looks for device plugins where every kubelet has them, and for PodResources below its directory", async () => {
  const { kubelet } = configOf(await render({ kubeletDir: "/var/lib/k0s/kubelet" }));
  expect(kubelet.devicePlugins).toBe("/var/lib/kubelet/device-plugins");
  expect(kubelet.podResources).toBe("/var/lib/k0s/kubelet/pod-resources/kubelet.sock");
});

it("policies of KubeVirt's pods have the image and the version of the API that values say", async () => {
  const on = { sharedLinks: true, sidecarClaims: true, plugin: true };
  const image = { repository: "registry.example/kvu", tag: "7" };
  const [plain, other] = await Promise.all([
    renderChart({ kubevirt: on }),
    renderChart({ kubevirt: { ...on, policyVersion: "v1beta1" }, image }),
  ]);
  expect(other).not.toContain("ghcr.io/");
  expect(other.match(/registry\.example\/kvu:7/g)).toHaveLength(4);
  const apis = (text: string) => text.match(/^apiVersion: admissionregistration.*$/gm);
  expect(new Set(apis(plain))).toEqual(new Set(["apiVersion: admissionregistration.k8s.io/v1"]));
  expect(apis(other)).toEqual(apis(plain)?.map((line) => `${line}beta1`));
  // That of the warning is not a mutating one.
  const warning = await renderChart({ kubevirt: { hotplugWarning: true, policyVersion: "v1beta1" } });
  expect(new Set(apis(warning))).toEqual(new Set(apis(plain)));
});

it("Helm lint accepts the chart", async () => {
  const { helm } = await kubernetesTools();
  const { stdout } = await runProgram(helm, ["lint", "--strict", CHART]);
  // Of an icon, which a chart may do without.
  expect(stdout.match(/^\[(?!INFO\] Chart.yaml: icon is recommended).*/gm)).toBeNull();
});

describe("what is rendered and committed", () => {
  it("is what the chart makes (else: npm run manifests)", async () => {
    for (const [file, text] of Object.entries({ ...(await stampedFiles()), ...(await renderedFiles()) })) {
      expect(await readFile(join(TOP, file), "utf8"), file).toBe(text);
    }
  });

  it("makes networks that the CNI plugin accepts", async () => {
    const manifests = await render(COMBINATIONS["a network of each pool"]?.values ?? {});
    const configs = manifests
      .filter(({ kind }) => kind === "NetworkAttachmentDefinition")
      .map(({ spec }) => parseNetworkConfig(Buffer.from(spec.config)));
    expect(configs).toMatchObject([
      { name: "net-a", cniVersion: "1.1.0", mtu: 9000, vlan: 100 },
      { name: "100", cniVersion: "1.0.0", capabilities: { mac: false, deviceID: true } },
    ]);
  });
});
