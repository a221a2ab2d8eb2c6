import {
  COMMANDS,
  COMMON_OPTIONS,
  type CommandName,
  type DeclaredOption,
  declared,
  EXIT_MEANINGS,
} from "../commands.ts";
import { wrap } from "../terminal/wrap.ts";

const WIDTH = 80;

/** The whole program's help. */
export function programHelp(): string {
  const names = Object.keys(COMMANDS) as CommandName[];
  return [
    "vhostuserctl: what kube-vhostuser does on this node, and why it does not work",
    "",
    "  vhostuserctl COMMAND [OPTIONS]",
    "",
    ...rows(names.map((name) => [synopsis(name), declared(name).summary] as const)),
    "",
    ...optionRows(COMMON_OPTIONS),
    ...rows([["--version", "print the release"] as const]),
    "",
    "Exit code:",
    ...rows(EXIT_MEANINGS.map(([code, meaning]) => [String(code), meaning] as const)),
    "",
  ].join("\n");
}

/** One command's help. */
export function commandHelp(name: CommandName): string {
  const { description, options } = declared(name);
  return [
    `vhostuserctl ${synopsis(name)} [OPTIONS]`,
    ...description.flatMap((paragraph) => ["", ...wrap(paragraph, WIDTH)]),
    "",
    ...optionRows({ ...options, ...COMMON_OPTIONS }),
    "",
  ].join("\n");
}

/** A command with its argument. */
export function synopsis(name: CommandName): string {
  const { argument, choices } = declared(name);
  const text = choices?.join("|") ?? argument;
  return text === undefined ? name : `${name} ${text}`;
}

/** An option as it is written, for example `-n, --interval SECONDS`. */
export function optionText(name: string, { short, value }: DeclaredOption): string {
  const long = value === undefined ? `--${name}` : `--${name} ${value}`;
  return short === undefined ? long : `-${short}, ${long}`;
}

function optionRows(options: Readonly<Record<string, DeclaredOption>>): string[] {
  return rows(
    Object.entries(options).map(([name, option]) => [optionText(name, option), option.help] as const),
  );
}

function rows(pairs: readonly (readonly [left: string, right: string])[]): string[] {
  const width = Math.max(26, ...pairs.map(([left]) => left.length));
  return pairs.flatMap(([left, right]) =>
    wrap(right, WIDTH - width - 4).map(
      (line, index) => `  ${(index === 0 ? left : "").padEnd(width)}  ${line}`,
    ),
  );
}
