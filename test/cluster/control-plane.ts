// What a control plane of real parts is started with, on a node's machine and alone.
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runProgram } from "../machine/run-program.ts";

/** The name and the groups that the API server knows a user by. */
export type Users = Readonly<Record<string, readonly [name: string, groups: string]>>;

/**
 * Writes a kubeconfig with a token for each user (`<key>.json`), and the key that signs ServiceAccounts' tokens.
 * @param server URL of the API server, which makes its certificate itself
 */
export async function writeCredentials(directory: string, server: string, users: Users): Promise<void> {
  await mkdir(directory, { recursive: true });
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const key = privateKey.export({ type: "pkcs8", format: "pem" });
  await writeFile(join(directory, "service-accounts.key"), key);
  const lines: string[] = [];
  for (const [file, [name, groups]] of Object.entries(users)) {
    const token = randomBytes(16).toString("hex");
    lines.push(`${token},${name},${name},"${groups}"`);
    const cluster = { server, "insecure-skip-tls-verify": true };
    const config = {
      ...{ apiVersion: "v1", kind: "Config", "current-context": "node" },
      clusters: [{ name: "node", cluster }],
      users: [{ name: "user", user: { token } }],
      contexts: [{ name: "node", context: { cluster: "node", user: "user" } }],
    };
    await writeFile(join(directory, `${file}.json`), JSON.stringify(config));
  }
  await writeFile(join(directory, "tokens.csv"), `${lines.join("\n")}\n`);
}

/** @param clients URL for clients; @param peers URL for other members, of which there are none */
export function etcdArguments(dataDirectory: string, clients: string, peers: string): readonly string[] {
  return [
    `--data-dir=${dataDirectory}`,
    ...[`--listen-client-urls=${clients}`, `--advertise-client-urls=${clients}`],
    ...[`--listen-peer-urls=${peers}`, `--initial-advertise-peer-urls=${peers}`],
    ...[`--initial-cluster=default=${peers}`, "--unsafe-no-fsync"],
  ];
}

/**
 * With RBAC on, and what keeps kubelets to their own node.
 * @param pki directory of {@link writeCredentials}
 */
export function apiServerArguments(pki: string, etcd: string): readonly string[] {
  const key = join(pki, "service-accounts.key");
  return [
    ...[`--etcd-servers=${etcd}`, `--cert-dir=${pki}`, "--allow-privileged"],
    ...["--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"],
    `--token-auth-file=${join(pki, "tokens.csv")}`,
    "--service-account-issuer=https://kubernetes.default.svc",
    ...[`--service-account-key-file=${key}`, `--service-account-signing-key-file=${key}`],
  ];
}

/**
 * Writes the certificates with which the API server says whose request it forwards to another API server.
 * https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/
 * @param pki directory of {@link writeCredentials}
 */
export async function writeFrontProxy(pki: string): Promise<void> {
  const newKey = ["-newkey", "rsa:2048", "-noenc", "-days", "30"];
  const file = (name: string) => join(pki, name);
  const authority = ["-CA", file("front-proxy-ca.crt"), "-CAkey", file("front-proxy-ca.key")];
  const request = async (name: string, ...args: readonly string[]) => {
    const out = ["-keyout", file(`${name}.key`), "-out", file(`${name}.crt`)];
    await runProgram("openssl", ["req", "-x509", ...newKey, "-subj", `/CN=${name}`, ...out, ...args]);
  };
  await request("front-proxy-ca");
  await request("front-proxy", ...authority, "-addext", "basicConstraints=CA:FALSE");
}

/** @param pki directory of {@link writeFrontProxy} */
export function frontProxyArguments(pki: string): readonly string[] {
  return [
    `--requestheader-client-ca-file=${join(pki, "front-proxy-ca.crt")}`,
    ...["--requestheader-allowed-names=front-proxy", "--requestheader-username-headers=X-Remote-User"],
    ...[
      "--requestheader-group-headers=X-Remote-Group",
      "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    ],
    `--proxy-client-cert-file=${join(pki, "front-proxy.crt")}`,
    `--proxy-client-key-file=${join(pki, "front-proxy.key")}`,
    // Without kube-proxy a Service has no address that answers.
    "--enable-aggregator-routing",
  ];
}
