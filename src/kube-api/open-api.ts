import { accessSync, constants } from "node:fs";
import { join } from "node:path";
import { describeThrown } from "../failure/failure.ts";
import { ApiFailure } from "./api-failure.ts";
import { KubeApi } from "./client.ts";

/** Host and port of the API server as kubelet sets them in the environment. */
export interface ApiServerPlace {
  readonly host: string;
  readonly port: string;
}

/**
 * A client for the API server that the configuration or else the environment names.
 * @param key of the configuration that `config` is from, for errors
 * @throws ApiFailure where none is named, or the token cannot be read
 */
export function openKubeApi(
  key: string,
  config: { readonly apiServer?: string | undefined; readonly serviceAccountDirectory: string },
  place: ApiServerPlace | undefined,
): { readonly url: string; readonly api: KubeApi } {
  const { serviceAccountDirectory } = config;
  const url = config.apiServer ?? urlOf(place);
  if (url === undefined) {
    const what = `neither KUBERNETES_SERVICE_HOST nor ${key}.apiServer names an API server`;
    throw new ApiFailure("unreachable", what, "environment and configuration");
  }
  const token = join(serviceAccountDirectory, "token");
  try {
    accessSync(token, constants.R_OK);
  } catch (error) {
    throw new ApiFailure("unreachable", `there is no token: ${describeThrown(error)}`, token);
  }
  return { url, api: new KubeApi({ url, serviceAccountDirectory }) };
}

/** The same for what can be done without: where there is no client, `whenNone` is called with the reason. */
export function openKubeApiIfAny(
  ...[key, config, place, whenNone]: [...Parameters<typeof openKubeApi>, (reason: string) => void]
): ReturnType<typeof openKubeApi> | undefined {
  try {
    return openKubeApi(key, config, place);
  } catch (error) {
    whenNone(describeThrown(error));
    return undefined;
  }
}

function urlOf(place: ApiServerPlace | undefined): string | undefined {
  if (place === undefined) return undefined;
  const host = place.host.includes(":") ? `[${place.host}]` : place.host;
  return `https://${host}:${place.port}`;
}
