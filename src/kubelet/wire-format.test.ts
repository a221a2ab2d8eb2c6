import type { MethodDefinition } from "@grpc/grpc-js";
import { describe, expect, it } from "vitest";
import { loadService } from "../grpc/load-service.ts";

// The bytes are built by hand from the field numbers of kubelet's API: a wrong number in our .proto files would
// otherwise go unseen, because the stand-in kubelet reads the same files.

const length = (text: string | Buffer) => Buffer.byteLength(text);
/** A field of text, bytes or message: tag, length, content. */
const field = (number: number, content: string | Buffer) =>
  Buffer.concat([Buffer.from([(number << 3) | 2, length(content)]), Buffer.from(content)]);
/** A field of bool or small whole number. */
const varint = (number: number, value: number) => Buffer.from([number << 3, value]);
const message = (...fields: Buffer[]) => Buffer.concat(fields);

function method(file: string, service: string, name: string): MethodDefinition<object, object> {
  const found = loadService(file, service).definition[name];
  if (found === undefined) throw new Error(`no ${name}`);
  return found;
}

const plugin = (name: string) => method("kubelet/device-plugin-v1beta1.proto", "v1beta1.DevicePlugin", name);

describe("the device plugin API's bytes", () => {
  it("of Register", () => {
    const { path, requestSerialize } = method(
      "kubelet/device-plugin-v1beta1.proto",
      "v1beta1.Registration",
      "Register",
    );
    expect(path).toBe("/v1beta1.Registration/Register");
    expect(
      requestSerialize({
        version: "v1beta1",
        endpoint: "a.sock",
        resource_name: "v/s",
        options: { pre_start_required: true, get_preferred_allocation_available: true },
      }),
    ).toEqual(
      message(
        field(1, "v1beta1"),
        field(2, "a.sock"),
        field(3, "v/s"),
        field(4, message(varint(1, 1), varint(2, 1))),
      ),
    );
  });

  it("of ListAndWatch", () => {
    const { path, responseSerialize, responseStream } = plugin("ListAndWatch");
    expect([path, responseStream]).toEqual(["/v1beta1.DevicePlugin/ListAndWatch", true]);
    expect(
      responseSerialize({
        devices: [
          { ID: "a", health: "Healthy", topology: { nodes: [{ ID: 1 }] } },
          { ID: "b", health: "Unhealthy", topology: null },
        ],
      }),
    ).toEqual(
      message(
        field(1, message(field(1, "a"), field(2, "Healthy"), field(3, field(1, varint(1, 1))))),
        field(1, message(field(1, "b"), field(2, "Unhealthy"))),
      ),
    );
  });

  it("of Allocate, both ways", () => {
    const { path, requestDeserialize, responseSerialize } = plugin("Allocate");
    expect(path).toBe("/v1beta1.DevicePlugin/Allocate");
    expect(requestDeserialize(field(1, message(field(1, "a"), field(1, "b"))))).toEqual({
      container_requests: [{ devices_ids: ["a", "b"] }],
    });
    const answer = {
      envs: { K: "v" },
      mounts: [{ container_path: "/c", host_path: "/h", read_only: true }],
      devices: [{ container_path: "/d", host_path: "/e", permissions: "rw" }],
      annotations: { A: "b" },
      cdi_devices: [{ name: "v/c=n" }],
    };
    expect(responseSerialize({ container_responses: [answer] })).toEqual(
      field(
        1,
        message(
          field(1, message(field(1, "K"), field(2, "v"))),
          field(2, message(field(1, "/c"), field(2, "/h"), varint(3, 1))),
          field(3, message(field(1, "/d"), field(2, "/e"), field(3, "rw"))),
          field(4, message(field(1, "A"), field(2, "b"))),
          field(5, field(1, "v/c=n")),
        ),
      ),
    );
  });

  it("of GetDevicePluginOptions, GetPreferredAllocation and PreStartContainer", () => {
    expect(
      plugin("GetDevicePluginOptions").responseSerialize({
        pre_start_required: true,
        get_preferred_allocation_available: true,
      }),
    ).toEqual(message(varint(1, 1), varint(2, 1)));
    expect(
      plugin("GetPreferredAllocation").requestDeserialize(
        field(1, message(field(1, "a"), field(1, "b"), field(2, "b"), varint(3, 2))),
      ),
    ).toEqual({
      container_requests: [
        { available_deviceIDs: ["a", "b"], must_include_deviceIDs: ["b"], allocation_size: 2 },
      ],
    });
    expect(
      plugin("GetPreferredAllocation").responseSerialize({ container_responses: [{ deviceIDs: ["b"] }] }),
    ).toEqual(field(1, field(1, "b")));
    expect(plugin("PreStartContainer").requestDeserialize(field(1, "a"))).toEqual({ devices_ids: ["a"] });
  });
});

describe("the PodResources API's bytes", () => {
  it("of List, with what newer kubelets add", () => {
    const { path, responseDeserialize } = method(
      "kubelet/pod-resources-v1.proto",
      "v1.PodResourcesLister",
      "List",
    );
    expect(path).toBe("/v1.PodResourcesLister/List");
    const devices = message(field(1, "v/s"), field(2, "a"), field(2, "b"), field(3, field(1, varint(1, 1))));
    const claim = message(field(2, "claim"), field(3, "ns"), field(4, message(field(2, "driver"))));
    const container = message(field(1, "compute"), field(2, devices), varint(3, 4), field(5, claim));
    // Fields 4 and 5 of a pod are CPUs and memory of later versions.
    const pod = message(field(1, "vm"), field(2, "ns"), field(3, container), varint(4, 7));
    expect(responseDeserialize(field(1, pod))).toMatchObject({
      pod_resources: [
        {
          name: "vm",
          namespace: "ns",
          containers: [
            {
              name: "compute",
              devices: [{ resource_name: "v/s", device_ids: ["a", "b"], topology: { nodes: [{ ID: 1 }] } }],
              cpu_ids: [4],
              dynamic_resources: [
                { claim_name: "claim", claim_namespace: "ns", claim_resources: [{ driver_name: "driver" }] },
              ],
            },
          ],
        },
      ],
    });
  });

  it("of Get and GetAllocatableResources", () => {
    const lister = (name: string) => method("kubelet/pod-resources-v1.proto", "v1.PodResourcesLister", name);
    expect(lister("Get").requestSerialize({ pod_name: "vm", pod_namespace: "ns" })).toEqual(
      message(field(1, "vm"), field(2, "ns")),
    );
    expect(
      lister("GetAllocatableResources").responseDeserialize(
        field(1, message(field(1, "v/s"), field(2, "a"))),
      ),
    ).toMatchObject({ devices: [{ resource_name: "v/s", device_ids: ["a"] }] });
  });
});

describe.each(["v1", "v1beta1"])("the DRA plugin API's bytes, version %s", (version) => {
  const dra = (name: string) =>
    method(`kubelet/dra-${version}.proto`, `k8s.io.kubelet.pkg.apis.dra.${version}.DRAPlugin`, name);
  const claim = message(field(1, "ns"), field(2, "uid"), field(3, "name"));

  it("of NodePrepareResources", () => {
    const { path, requestDeserialize, responseSerialize } = dra("NodePrepareResources");
    expect(path).toBe(`/k8s.io.kubelet.pkg.apis.dra.${version}.DRAPlugin/NodePrepareResources`);
    expect(requestDeserialize(field(1, claim))).toEqual({
      claims: [{ namespace: "ns", uid: "uid", name: "name" }],
    });
    const device = {
      request_names: ["r"],
      pool_name: "p",
      device_name: "d",
      cdi_device_ids: ["v/c=a", "v/c=b"],
    };
    const bytes = [field(1, "r"), field(2, "p"), field(3, "d"), field(4, "v/c=a"), field(4, "v/c=b")];
    const entry = (value: Buffer) => field(1, message(field(1, "uid"), field(2, value)));
    expect(
      responseSerialize({ claims: { uid: { devices: [{ ...device, share_id: "s" }, device] } } }),
    ).toEqual(
      entry(
        message(
          field(1, message(...bytes, ...(version === "v1" ? [field(5, "s")] : []))),
          field(1, message(...bytes)),
        ),
      ),
    );
    expect(responseSerialize({ claims: { uid: { error: "e" } } })).toEqual(entry(field(2, "e")));
  });

  it("of NodeUnprepareResources", () => {
    const { path, requestDeserialize, responseSerialize } = dra("NodeUnprepareResources");
    expect(path).toBe(`/k8s.io.kubelet.pkg.apis.dra.${version}.DRAPlugin/NodeUnprepareResources`);
    expect(requestDeserialize(field(1, claim))).toEqual({
      claims: [{ namespace: "ns", uid: "uid", name: "name" }],
    });
    expect(responseSerialize({ claims: { a: {}, b: { error: "e" } } })).toEqual(
      message(
        field(1, message(field(1, "a"), field(2, ""))),
        field(1, message(field(1, "b"), field(2, field(1, "e")))),
      ),
    );
  });
});

describe.each(["v1", "v1alpha1"])("the DRA health API's bytes, version %s", (version) => {
  it("of NodeWatchResources", () => {
    const { path, responseStream, responseSerialize } = method(
      `kubelet/dra-health-${version}.proto`,
      `${version}.DRAResourceHealth`,
      "NodeWatchResources",
    );
    expect([path, responseStream]).toEqual([`/${version}.DRAResourceHealth/NodeWatchResources`, true]);
    expect(
      responseSerialize({
        devices: [
          {
            device: { pool_name: "p", device_name: "d" },
            health: 2,
            last_updated_time: 100,
            health_check_timeout_seconds: 30,
            message: "m",
          },
        ],
      }),
    ).toEqual(
      field(
        1,
        message(
          field(1, message(field(1, "p"), field(2, "d"))),
          ...[varint(2, 2), varint(3, 100), varint(4, 30), field(5, "m")],
        ),
      ),
    );
  });
});

describe("the plugin registration API's bytes", () => {
  const registration = (name: string) =>
    method("kubelet/pluginregistration-v1.proto", "pluginregistration.Registration", name);

  it("of GetInfo and NotifyRegistrationStatus", () => {
    const { path, responseSerialize } = registration("GetInfo");
    expect(path).toBe("/pluginregistration.Registration/GetInfo");
    expect(
      responseSerialize({ type: "DRAPlugin", name: "d", endpoint: "/e", supported_versions: ["a", "b"] }),
    ).toEqual(message(field(1, "DRAPlugin"), field(2, "d"), field(3, "/e"), field(4, "a"), field(4, "b")));
    const notify = registration("NotifyRegistrationStatus");
    expect(notify.path).toBe("/pluginregistration.Registration/NotifyRegistrationStatus");
    expect(notify.requestDeserialize(message(varint(1, 1), field(2, "e")))).toEqual({
      plugin_registered: true,
      error: "e",
    });
  });
});
