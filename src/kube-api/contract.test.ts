import { describeKubeApi } from "../../test/contract/kube-api.ts";
import { Machine } from "../../test/model/machine.ts";
import { SimulatedApi, SimulatedApiServer } from "../../test/model/simulated-api.ts";
import { Simulation } from "../../test/model/simulation.ts";
import { startApiRig } from "../../test/stand-in/api-server/api-rig.ts";

describeKubeApi("the stand-in on the wire", async () => {
  const rig = await startApiRig();
  return {
    api: rig.client,
    run: (promise) => promise,
    forget: async () => rig.server.store.compact(),
    close: () => rig.close(),
  };
});

describeKubeApi("the simulated server", async () => {
  const simulation = new Simulation(1);
  const server = new SimulatedApiServer(simulation);
  return {
    api: new SimulatedApi(server, new Machine("node-1", simulation).run()),
    run: (promise) => simulation.until(promise, 60_000),
    forget: async () => server.compact(),
    close: async () => undefined,
  };
});
