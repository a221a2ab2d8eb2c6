import { chmod, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** One call of the plugin. */
export interface IpamCallSeen {
  readonly verb: string;
  readonly container: string;
  readonly interface: string;
  readonly args: string;
  readonly netns: string;
}

/**
 * An IPAM plugin of a few lines of shell, a real executable with real state: like host-local it refuses a second ADD
 * for the same container and interface, and a DEL of nothing is fine.
 */
export class IpamPlugin {
  readonly type: string;
  readonly #directory: string;

  private constructor(type: string, directory: string) {
    this.type = type;
    this.#directory = directory;
  }

  /** Installs it as `<binDir>/<type>`, with its state below `directory`. */
  static async install(options: {
    readonly binDir: string;
    readonly directory: string;
    readonly type?: string;
  }): Promise<IpamPlugin> {
    const { binDir, directory, type = "stand-in-ipam" } = options;
    await mkdir(join(directory, "held"), { recursive: true });
    await mkdir(binDir, { recursive: true });
    await writeFile(join(binDir, type), script(directory));
    await chmod(join(binDir, type), 0o755);
    return new IpamPlugin(type, directory);
  }

  /** Prints this instead of what it would, and ends with 1 where it is an error; undefined ends that. */
  async answer(verb: string, output: object | string | undefined): Promise<void> {
    const file = join(this.#directory, `answer.${verb}`);
    if (output === undefined) await rm(file, { force: true });
    else await writeFile(file, typeof output === "string" ? output : JSON.stringify(output));
  }

  /** Hangs from now on, for this verb. */
  async hang(verb: string): Promise<void> {
    await writeFile(join(this.#directory, `hang.${verb}`), "");
  }

  /** `<container> <interface>` of all addresses that it holds. */
  async held(): Promise<readonly string[]> {
    return (await readdir(join(this.#directory, "held"))).map((name) => name.replace("@", " ")).sort();
  }

  async calls(): Promise<readonly IpamCallSeen[]> {
    const text = await readFile(join(this.#directory, "calls"), "utf8").catch(() => "");
    return text
      .split("\n")
      .filter(Boolean)
      .map((line) => {
        const [verb = "", container = "", name = "", netns = "", args = ""] = line.split("\t");
        return { verb, container, interface: name, netns, args };
      });
  }

  /** `ADD c1`, `DEL c1` and so on, in their order. */
  async verbs(): Promise<readonly string[]> {
    return (await this.calls()).map(({ verb, container }) => `${verb} ${container}`);
  }

  /** Standard input of the last call of a verb. */
  async lastInput(verb: string): Promise<Record<string, unknown>> {
    const inputs = await readFile(join(this.#directory, `stdin.${verb}`), "utf8");
    return JSON.parse(inputs.trimEnd().split("\n").at(-1) ?? "");
  }
}

function script(directory: string): string {
  return `#!/bin/sh
cd ${JSON.stringify(directory)} || exit 1
IFS= read -r stdin # what the shell does itself starts no process
printf '%s\\n' "$stdin" >> "stdin.$CNI_COMMAND"
printf '%s\\t%s\\t%s\\t%s\\t%s\\n' "$CNI_COMMAND" "$CNI_CONTAINERID" "$CNI_IFNAME" "$CNI_NETNS" "$CNI_ARGS" >> calls
version=\${stdin#*'"cniVersion":"'}
version=\${version%%'"'*}
file="held/$CNI_CONTAINERID@$CNI_IFNAME"
if [ -e "hang.$CNI_COMMAND" ]; then exec sleep 1000; fi
if [ -e "answer.$CNI_COMMAND" ]; then
  cat "answer.$CNI_COMMAND"
  ! grep -q '"code"' "answer.$CNI_COMMAND"
  exit
fi
case $CNI_COMMAND in
ADD)
  if [ -e "$file" ]; then
    echo '{"cniVersion":"'$version'","code":20,"msg":"duplicate allocation"}'
    exit 1
  fi
  : > "$file"
  last=$(wc -l < calls)
  family=
  case $version in 0.*) family='"version":"4",' ;; esac
  echo '{"cniVersion":"'$version'","ips":[{'$family'"address":"10.9.0.'$last'/24","gateway":"10.9.0.254"}],' \\
    '"routes":[{"dst":"0.0.0.0/0","gw":"10.9.0.254"}],"dns":{"nameservers":["10.9.0.53"]}}'
  ;;
DEL) rm -f "$file" ;;
CHECK)
  if [ ! -e "$file" ]; then
    echo '{"cniVersion":"'$version'","code":21,"msg":"no such allocation"}'
    exit 1
  fi
  ;;
esac
`;
}
