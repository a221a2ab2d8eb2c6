import { type ClusterApiUnderTest, describeClusterApi } from "../../../test/contract/cluster-api.ts";
import { startApiRig } from "../../../test/stand-in/api-server/api-rig.ts";

// With v1beta1, and on a real API server: test/cluster/cluster-api.test.ts.
describeClusterApi("the stand-in", async (): Promise<ClusterApiUnderTest> => {
  const rig = await startApiRig();
  const { server, client } = rig;
  const version = "v1beta2";
  server.groups.set("ipam.cluster.x-k8s.io", [version]).set("cluster.x-k8s.io", [version]);
  for (const plural of ["ipaddressclaims", "namespacedaddresspools"]) server.store.withStatus.add(plural);
  return {
    ...{ admin: client, controller: client, version },
    addNamespace: async (name) => server.namespaces.add(name),
    close: () => rig.close(),
  };
});
