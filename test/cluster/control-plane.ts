// What a control plane of real parts is started with, on a node's machine and alone.
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

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
