import { spawnSync } from "node:child_process";
import {
  COMMON_OPTIONS,
  type CommandName,
  type DeclaredOption,
  declared,
  isCommand,
} from "../../../src/ctl/commands.ts";
import type { Document } from "./document.ts";
import { BENCH_SUITES, NPM_SCRIPTS, POD, PROGRAMS } from "./known-names.ts";

/** What `npm test` hands on to vitest. */
const OF_VITEST: readonly string[] = ["--project", "-t"];
const SHELL: ReadonlySet<string> = new Set(["sh", "bash", "shell", "console"]);

/** Commands in a document that do not exist, or do not take what they are given. */
export function commandFaults({ blocks, spans }: Document): string[] {
  const lines = [...blocks.flatMap(({ text }) => joinedLines(text)), ...spans];
  const shell = blocks.filter(({ language }) => SHELL.has(language));
  return [
    ...lines.flatMap(npmFaults),
    ...lines.flatMap(ctlFaults),
    ...lines.flatMap(programFaults),
    ...lines.flatMap(kubectlFaults),
    ...shell.flatMap(({ text }) => syntaxFaults(text)),
  ];
}

/** Lines that end with a backslash go on in the next one. */
function joinedLines(text: string): string[] {
  return text.replaceAll(/\\\n\s*/g, " ").split("\n");
}

/** What stands behind a command, up to where the shell or a remark ends it. */
const ARGUMENTS = String.raw`((?: +[^\s|;&#)]+)*)`;

function npmFaults(line: string): string[] {
  const calls = [
    ...line.matchAll(new RegExp(String.raw`\bnpm (?:run +([\w:-]+)|(test)\b)${ARGUMENTS}`, "g")),
  ];
  return calls.flatMap(([, run, test, rest = ""]) => {
    const name = run ?? test ?? "";
    const program = NPM_SCRIPTS.get(name);
    if (program === undefined) return [`npm run ${name}: there is no such script`];
    const args = words(rest);
    const unknown = flags(args)
      .filter((flag) => !takes(program, flag) && !(name === "test" && OF_VITEST.includes(flag)))
      .map((flag) => `npm run ${name}: it takes no ${flag}`);
    const only = args.flatMap((arg) => (arg.startsWith("--only=") ? [arg.slice("--only=".length)] : []));
    return [
      ...unknown,
      ...only
        .filter((suite) => /^[\w-]+$/.test(suite) && !isPlaceholder(suite))
        .filter((suite) => !BENCH_SUITES.includes(suite))
        .map((suite) => `npm run ${name}: there is no suite ${suite}`),
    ];
  });
}

function ctlFaults(line: string): string[] {
  // Behind the name, or behind the program's file, which is how it is called in a pod.
  const call = new RegExp(String.raw`(?:\bvhostuserctl|dist/ctl/main\.mjs)(?![\w.])${ARGUMENTS}`, "g");
  return [...line.matchAll(call)].flatMap(([, rest = ""]) => {
    const [command = "--help", ...args] = words(rest);
    if (command.startsWith("-")) {
      return ["--help", "-h", "--version"].includes(command) ? [] : [`vhostuserctl: it takes no ${command}`];
    }
    // A sentence about the program, or a place where a reader fills in something.
    if (!/^[a-z]+$/.test(command) || command === "help") return [];
    if (!isCommand(command)) return [`vhostuserctl ${command}: there is no such command`];
    return flags(args)
      .filter((flag) => !takenByCtl(command, flag))
      .map((flag) => `vhostuserctl ${command}: it takes no ${flag}`);
  });
}

function takenByCtl(command: CommandName, flag: string): boolean {
  const options: Readonly<Record<string, DeclaredOption>> = {
    ...COMMON_OPTIONS,
    ...declared(command).options,
  };
  return Object.entries(options).some(([name, { short }]) => flag === `--${name}` || flag === `-${short}`);
}

function programFaults(line: string): string[] {
  const calls = line.matchAll(new RegExp(String.raw`dist/([\w-]+)/main\.mjs${ARGUMENTS}`, "g"));
  return [...calls].flatMap(([, name = "", rest = ""]) => {
    if (name === "ctl") return [];
    const program = PROGRAMS.get(name);
    if (program === undefined) return [`dist/${name}/main.mjs: there is no such program`];
    return flags(words(rest))
      .filter((flag) => !takes(program, flag))
      .map((flag) => `${name}: it takes no ${flag}`);
  });
}

/** Selectors and containers that the DaemonSet's pods do not have find nothing, and a reader looks elsewhere. */
function kubectlFaults(line: string): string[] {
  return [...line.matchAll(/kubectl -n kube-vhostuser ([^|;)`]*)/g)].flatMap(([, rest = ""]) => {
    const [ours = ""] = rest.split(" -- ");
    const labels = [...ours.matchAll(/ -l ([^\s=]+)=(\S+)/g)]
      .filter(([, name = "", value]) => POD.labels[name] !== value)
      .map(([selector]) => `no pod of ours has${selector}`);
    const containers = [...ours.matchAll(/ -c ([\w-]+)/g)]
      .filter(([, name = ""]) => !POD.containers.includes(name))
      .map(([container]) => `no container of ours is${container}`);
    return [...labels, ...containers];
  });
}

function words(rest: string): string[] {
  return rest.split(" ").filter((word) => word !== "" && word !== "--");
}

function flags(args: readonly string[]): string[] {
  return args.filter((arg) => /^--?[a-z]/.test(arg)).map((arg) => arg.replace(/=.*/, ""));
}

/** Whether the text of a program declares a flag for parseArgs, or reads it by itself. */
function takes(program: string, flag: string): boolean {
  const name = flag.replace(/^--?/, "");
  return new RegExp(String.raw`(?:^|\s|\{)"?${name}"?: \{\s*type:|"--${name}"`, "m").test(program);
}

function isPlaceholder(word: string): boolean {
  return word === word.toUpperCase();
}

/** Read by a shell, run by nobody. So a reader's part is written in capitals, which a shell takes for a word. */
function syntaxFaults(text: string): string[] {
  const { status, stderr } = spawnSync("bash", ["-n"], { input: text, encoding: "utf8" });
  return status === 0 ? [] : [`no shell reads ${JSON.stringify(text)}: ${stderr.trim()}`];
}
