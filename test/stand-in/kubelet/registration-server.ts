import { existsSync } from "node:fs";
import { link, rename } from "node:fs/promises";
import { basename, join } from "node:path";
import { type handleUnaryCall, status } from "@grpc/grpc-js";
import { loadService } from "../../../src/grpc/load-service.ts";
import { serveUnix, type UnixServer } from "../../../src/grpc/unix-server.ts";
import { type ListedDevice, PluginClient, type PluginOptions } from "./plugin-client.ts";

/** Is notified of plugins: kubelet's device manager. */
export interface PluginHandler {
  pluginConnected(resource: string, client: PluginClient, options: PluginOptions): void;
  pluginListed(resource: string, devices: readonly ListedDevice[]): void;
  pluginDisconnected(resource: string): void;
}

/** A Register call, and what kubelet answered. */
export interface RegistrationAttempt {
  readonly resource: string;
  readonly endpoint: string;
  readonly version: string;
  /** Undefined when it went well. */
  readonly error?: string;
}

interface WireRegisterRequest {
  readonly version: string;
  readonly endpoint: string;
  readonly resource_name: string;
}

/** How long kubelet waits for a plugin's socket. */
const DIAL_TIMEOUT_MS = 10_000;

/** kubelet's registration service: one life of it, from start to death. */
export class RegistrationServer {
  readonly #directory: string;
  readonly #handler: PluginHandler;
  readonly #attempts: RegistrationAttempt[];
  readonly #clients = new Map<string, PluginClient>();
  readonly #everyClient = new Set<PluginClient>();
  #server: UnixServer | undefined;
  #dead = false;

  constructor(options: {
    readonly directory: string;
    readonly handler: PluginHandler;
    readonly attempts: RegistrationAttempt[];
  }) {
    this.#directory = options.directory;
    this.#handler = options.handler;
    this.#attempts = options.attempts;
  }

  async listen(): Promise<void> {
    const { definition } = loadService("kubelet/device-plugin-v1beta1.proto", "v1beta1.Registration");
    const register: handleUnaryCall<WireRegisterRequest, object> = (call, respond) => {
      const { version, endpoint, resource_name: resource } = call.request;
      this.#register({ version, endpoint, resource }).then(
        () => {
          this.#attempts.push({ version, endpoint, resource });
          respond(null, {});
        },
        (error: Error) => {
          // A server that has ended refuses no call.
          if (!this.#dead) this.#attempts.push({ version, endpoint, resource, error: error.message });
          respond({ code: status.UNKNOWN, details: error.message });
        },
      );
    };
    this.#server = await serveUnix({
      socketPath: join(this.#directory, "kubelet.sock"),
      services: [{ definition, implementation: { Register: register } }],
    });
  }

  /** Serves on a new socket, as kubelet does when its server broke; connections to plugins stay open. */
  async listenAnew(): Promise<void> {
    await this.#server?.close();
    await this.listen();
  }

  /** The connection of a resource's plugin, as long as it counts as connected. */
  client(resource: string): PluginClient | undefined {
    return this.#clients.get(resource);
  }

  /** Dies as a killed process: connections are cut without notice, and the socket file stays. */
  async die(): Promise<void> {
    this.#dead = true;
    for (const client of this.#everyClient) client.close();
    const socket = join(this.#directory, "kubelet.sock");
    const kept = join(this.#directory, ".kubelet.sock");
    // Closing deletes the file; a second name keeps the very same socket.
    const isThere = existsSync(socket);
    if (isThere) await link(socket, kept);
    await this.#server?.close();
    if (isThere) await rename(kept, socket);
  }

  async #register({ version, endpoint, resource }: RegistrationAttempt): Promise<void> {
    if (version !== "v1beta1") {
      throw new Error(
        `requested API version "${version}" is not supported by kubelet. Supported version is ["v1beta1"]`,
      );
    }
    if (!isExtendedResource(resource)) throw new Error(`the ResourceName "${resource}" is invalid`);
    if (endpoint === "" || basename(endpoint) !== endpoint || endpoint.startsWith(".")) {
      throw new Error(`endpoint "${endpoint}" is not the plain name of a socket file`);
    }
    const socketPath = join(this.#directory, endpoint);
    // kubelet would wait 10 s for it; a plugin that registers before it listens has a defect, so say it at once.
    if (!existsSync(socketPath)) throw new Error(`failed to dial device plugin: no ${socketPath}`);
    const client = await PluginClient.connect(socketPath, DIAL_TIMEOUT_MS);
    this.#everyClient.add(client);
    try {
      const options = await client.options();
      if (this.#dead) throw new Error("kubelet died");
      this.#handler.pluginConnected(resource, client, options);
    } catch (error) {
      this.#drop(client);
      throw error;
    }
    this.#clients.set(resource, client);
    void this.#run(resource, client);
  }

  /**
   * kubelet's trap: when a stream ends it looks up the client by the resource's name, and so cuts off whichever
   * plugin is registered by now, though another stream than that plugin's has ended.
   */
  async #run(resource: string, client: PluginClient): Promise<void> {
    await client.listAndWatch((devices) => {
      if (!this.#dead) this.#handler.pluginListed(resource, devices);
    });
    if (this.#dead) return;
    this.#drop(client);
    const registered = this.#clients.get(resource);
    if (registered === undefined) return;
    this.#clients.delete(resource);
    this.#drop(registered);
    this.#handler.pluginDisconnected(resource);
  }

  #drop(client: PluginClient): void {
    this.#everyClient.delete(client);
    client.close();
  }
}

/** kubelet's rule for extended resources, written from the API's text and not taken from the product. */
function isExtendedResource(name: string): boolean {
  const slash = name.indexOf("/");
  if (slash <= 0 || name.includes("kubernetes.io/") || name.startsWith("requests.")) return false;
  const domain = `requests.${name.slice(0, slash)}`;
  const local = name.slice(slash + 1);
  const isDomain =
    domain.length <= 253 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(domain);
  return isDomain && local.length <= 63 && /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/.test(local);
}
