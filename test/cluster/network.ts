import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parseAllDocuments } from "yaml";
import * as z from "zod";
import type { SelectedNetwork } from "../stand-in/multus/network.ts";

/** The examples that users start from; the lab runs these very files. */
export const EXAMPLES = resolve(import.meta.dirname, "../../deploy/examples");

const definitionSchema = z.object({
  metadata: z.object({
    name: z.string(),
    namespace: z.string(),
    annotations: z.record(z.string(), z.string()).default({}),
  }),
  spec: z.object({ config: z.string() }),
});

/** A NetworkAttachmentDefinition of deploy/examples, as Multus selects it. */
export async function exampleNetwork(file = "network.yaml"): Promise<SelectedNetwork> {
  const [document] = parseAllDocuments(await readFile(join(EXAMPLES, file), "utf8"));
  const { metadata, spec } = definitionSchema.parse(document?.toJS());
  const resourceName = metadata.annotations["k8s.v1.cni.cncf.io/resourceName"];
  return {
    namespace: metadata.namespace,
    name: metadata.name,
    config: spec.config,
    ...(resourceName === undefined ? {} : { resourceName }),
  };
}

/** The example's network as a cluster has it for one VLAN. */
export async function vlanNetwork(vlan: number): Promise<SelectedNetwork> {
  const example = await exampleNetwork();
  const config: unknown = typeof example.config === "string" ? JSON.parse(example.config) : example.config;
  const name = `vlan-${vlan}`;
  return { ...example, name, config: { ...(config as object), name, vlan } };
}
