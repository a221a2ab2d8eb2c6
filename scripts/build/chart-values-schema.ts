import * as z from "zod";
import { networkConfigSchema, portKeys } from "../../src/cni/network-keys.ts";
import { driverConfigSchema } from "../../src/cni-dra/driver-config.ts";
import { daemonConfigSchema } from "../../src/config/schema.ts";
import { isPoolName, POOL_NAME_MAX } from "../../src/names/device-id.ts";

const strings = z.record(z.string(), z.string());
/** Checked by the API server, which knows more of it. */
const object = z.looseObject({});
const named = z.looseObject({ name: z.string().min(1) });
const absolutePath = z.string().regex(/^(\/[^/]+)+$/);
const port = z.number().int().min(1).max(65_535);
const switchedOn = z.strictObject({ enabled: z.boolean().optional() });
const monitor = z.strictObject({
  enabled: z.boolean().optional(),
  interval: z
    .string()
    .regex(/^([0-9]+(ms|[smhdwy]))+$/)
    .optional(),
  labels: strings.optional(),
});

const countOrPercentage = z.union([z.number().int().min(1), z.string().regex(/^[1-9][0-9]?%$|^100%$/)]);
/** Where pods of a program run, and with what. */
const placement = {
  nodeSelector: strings.optional(),
  affinity: object.optional(),
  tolerations: z.array(object).optional(),
  resources: object.optional(),
};

/** What a network's author writes; the chart adds the rest. */
const { mtu, mac, ipam, dns, capabilities } = networkConfigSchema.shape;
const networkKeys = { ...portKeys, mtu, mac, ipam, dns, capabilities };

/** The values of the Helm chart; docs of each are the comments in values.yaml. */
export const chartValuesSchema = z.strictObject({
  image: z
    .strictObject({
      repository: z.string().min(1).optional(),
      tag: z.string().optional(),
      digest: z
        .string()
        .regex(/^(sha256:[0-9a-f]{64})?$/)
        .optional(),
      pullPolicy: z.enum(["Always", "IfNotPresent", "Never"]).optional(),
    })
    .optional(),
  imagePullSecrets: z.array(z.strictObject({ name: z.string() })).optional(),
  nameOverride: z.string().optional(),
  fullnameOverride: z.string().optional(),
  commonLabels: strings.optional(),
  namespace: z.strictObject({ create: z.boolean().optional() }).optional(),
  // The node's name comes from the environment.
  config: z.strictObject({ ...daemonConfigSchema.shape, node: z.string().min(1).optional() }).optional(),
  formerSwitchDirectories: z.array(absolutePath).optional(),
  logLevel: z.enum(["trace", "debug", "info", "warn", "error"]).optional(),
  resources: object.optional(),
  extraEnv: z.array(named).optional(),
  extraVolumes: z.array(named).optional(),
  extraVolumeMounts: z.array(named).optional(),
  serviceAccount: z
    .strictObject({
      create: z.boolean().optional(),
      name: z.string().optional(),
      annotations: strings.optional(),
    })
    .optional(),
  kubeletDir: absolutePath.optional(),
  cni: z
    .strictObject({
      install: z.boolean().optional(),
      binPath: z.union([z.literal(""), absolutePath]).optional(),
    })
    .optional(),
  nodeSelector: strings.optional(),
  affinity: object.optional(),
  tolerations: z.array(object).optional(),
  priorityClassName: z.string().optional(),
  updateStrategy: z
    .strictObject({
      type: z.enum(["RollingUpdate", "OnDelete"]).optional(),
      rollingUpdate: z
        .strictObject({
          maxUnavailable: countOrPercentage.optional(),
        })
        .optional(),
    })
    .optional(),
  terminationGracePeriodSeconds: z.number().int().min(1).optional(),
  podLabels: strings.optional(),
  podAnnotations: strings.optional(),
  events: switchedOn.optional(),
  dra: switchedOn.optional(),
  cniDra: switchedOn
    .extend({
      allowedPlugins: driverConfigSchema.shape.allowedPlugins.removeDefault().optional(),
      interfaces: driverConfigSchema.shape.interfaces,
      metricsAddress: z.string().min(1).optional(),
      metricsPort: port.optional(),
      nodeSelector: strings.optional(),
      tolerations: z.array(object).optional(),
      resources: object.optional(),
    })
    .optional(),
  ipam: switchedOn
    .extend({
      metricsAddress: z.string().min(1).optional(),
      agent: z
        .strictObject({
          ...placement,
          maxUnavailable: countOrPercentage.optional(),
        })
        .optional(),
      clusterApi: switchedOn.optional(),
      controller: z.strictObject({ ...placement, replicas: z.number().int().min(1).optional() }).optional(),
      claims: switchedOn.extend({ manage: z.boolean().optional() }).optional(),
      whereabouts: switchedOn.extend({ namespace: z.string().min(1).optional() }).optional(),
    })
    .optional(),
  networkPolicy: switchedOn
    .extend({ from: z.array(object).optional(), apiServerPorts: z.array(port).optional() })
    .optional(),
  monitoring: z
    .strictObject({
      podMonitor: monitor.optional(),
      serviceMonitor: monitor.optional(),
      prometheusRule: switchedOn.extend({ labels: strings.optional() }).optional(),
      dashboard: switchedOn
        .extend({ labels: strings.optional(), annotations: strings.optional() })
        .optional(),
    })
    .optional(),
  selinux: switchedOn.extend({ type: z.string().optional(), label: z.string().optional() }).optional(),
  openshift: switchedOn.optional(),
  kubevirt: z
    .strictObject({
      sharedLinks: z.boolean().optional(),
      sidecarClaims: z.boolean().optional(),
      plugin: z.boolean().optional(),
      hotplugWarning: z.boolean().optional(),
      policyVersion: z.enum(["v1", "v1beta1"]).optional(),
    })
    .optional(),
  networks: z
    .array(
      z.strictObject({
        name: z.string().regex(/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/),
        namespace: z.string().optional(),
        pool: z.string().max(POOL_NAME_MAX).refine(isPoolName),
        // Stricter than CNI, which lets unknown keys pass: only those with a domain do here, which are other programs' own.
        config: z
          .strictObject(networkKeys)
          .meta({ patternProperties: { "/": {} } })
          .optional(),
      }),
    )
    .optional(),
  // What Helm hands to every chart.
  global: object.optional(),
});

/** The text of values.schema.json, by which Helm refuses a wrong or unknown value. */
export function chartValuesJsonSchema(): string {
  const schema = z.toJSONSchema(chartValuesSchema, { io: "input", target: "draft-7" });
  return `${JSON.stringify(schema, null, 2)}\n`;
}
