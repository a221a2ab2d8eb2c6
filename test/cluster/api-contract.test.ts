import { KubeApi } from "../../src/kube-api/client.ts";
import { describeKubeApi, EXAMPLE_DEFINITION, EXAMPLES } from "../contract/kube-api.ts";
import { openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { ApiServer } from "./api-server.ts";
import { kubernetesParts } from "./kubernetes-parts.ts";

describeKubeApi("a kube-apiserver with etcd", async () => {
  const run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
  const server = await ApiServer.start(run, kubernetesParts(process.env, ["apiServer", "etcd"]));
  await server.apply(EXAMPLE_DEFINITION);
  await server.kubectl("wait", "--for=condition=Established", `crd/${EXAMPLE_DEFINITION.metadata.name}`);
  const { url, administrator: serviceAccountDirectory } = server;
  const api = new KubeApi({ url, serviceAccountDirectory, deadlineMs: 60_000 });
  return {
    api,
    run: (promise) => promise,
    // It keeps some history in memory, beyond what etcd has.
    async forget() {
      await server.restart();
      const isRead = async () => {
        const answer = await api.openWatch(EXAMPLES, {}, run.cleanup.signal).catch(() => undefined);
        answer?.destroy();
        return answer !== undefined || undefined;
      };
      await waitUntil(isRead, { what: "the API server has read etcd", limitMs: 60_000, everyMs: 100 });
    },
    async close() {
      api.close();
      await run.close();
    },
  };
});
