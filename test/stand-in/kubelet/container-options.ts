import { existsSync } from "node:fs";
import { isAbsolute, normalize } from "node:path";
import type { DeviceEntry } from "./checkpoint.ts";
import type { AdmittedContainer, ContainerMount } from "./pod.ts";
import { shuffled } from "./seeded-random.ts";

/**
 * Joins what a container's resources were answered: the first value of a key or container path wins, over
 * resources in arbitrary order.
 */
export function containerOptions(
  name: string,
  entries: readonly DeviceEntry[],
  random: () => number,
): AdmittedContainer {
  const envs = new Map<string, string>();
  const annotations = new Map<string, string>();
  const mounts = new Map<string, ContainerMount>();
  for (const { answer } of shuffled(entries, random)) {
    for (const [key, value] of Object.entries(answer.envs)) if (!envs.has(key)) envs.set(key, value);
    for (const [key, value] of Object.entries(answer.annotations)) {
      if (!annotations.has(key)) annotations.set(key, value);
    }
    for (const { container_path: containerPath, host_path: hostPath, read_only: readOnly } of answer.mounts) {
      if (!mounts.has(containerPath)) mounts.set(containerPath, { containerPath, hostPath, readOnly });
    }
  }
  return {
    name,
    deviceIds: Object.fromEntries(entries.map(({ resource, ids }) => [resource, ids])),
    envs: Object.fromEntries(envs),
    mounts: [...mounts.values()],
    annotations: Object.fromEntries(annotations),
  };
}

/**
 * What would keep the runtime from making the container, one sentence each: kubelet makes no host path, and a
 * runtime takes absolute paths only.
 */
export function mountProblems(container: AdmittedContainer): readonly string[] {
  return container.mounts.flatMap(({ containerPath, hostPath }) => {
    const problems = [containerPath, hostPath]
      .filter((path) => !isAbsolute(path) || normalize(path) !== path)
      .map((path) => `${container.name}: mount path ${JSON.stringify(path)} is not absolute and normal`);
    if (!existsSync(hostPath)) problems.push(`${container.name}: host path ${hostPath} does not exist`);
    return problems;
  });
}
