import {
  COMMANDS,
  COMMON_OPTIONS,
  type CommandName,
  type DeclaredOption,
  declared,
  EXIT_MEANINGS,
} from "../../src/ctl/commands.ts";
import { optionText, synopsis } from "../../src/ctl/help/help.ts";

/** The text of docs/man/vhostuserctl.1, from the same declarations as the program's own help. */
export function manPage(version: string): string {
  const names = Object.keys(COMMANDS) as CommandName[];
  return `${[
    '.\\" Written by npm run docs from src/ctl/commands.ts',
    `.TH VHOSTUSERCTL 1 "" "kube-vhostuser ${version}" "kube-vhostuser"`,
    ".SH NAME",
    "vhostuserctl \\- what kube\\-vhostuser does on this node, and why it does not work",
    ".SH SYNOPSIS",
    ...names.map((name) => `.B vhostuserctl\n${text(synopsis(name))} [OPTIONS]\n.br`),
    ".SH DESCRIPTION",
    text(
      "vhostuserctl looks at one node: as root on it, or in the daemon's container with kubectl exec. It changes nothing.",
    ),
    ...names.flatMap((name) => [
      `.SH ${name.toUpperCase()}`,
      ...declared(name).description.flatMap((paragraph, index) => [
        ...(index === 0 ? [] : [".PP"]),
        text(paragraph),
      ]),
      ...options(declared(name).options),
    ]),
    ".SH OPTIONS OF EVERY COMMAND",
    ...options(COMMON_OPTIONS),
    ".SH EXIT STATUS",
    ...EXIT_MEANINGS.flatMap(([code, meaning]) => [".TP", `.B ${code}`, text(meaning)]),
    ".SH ENVIRONMENT",
    ...[
      ".TP",
      ".B NO_COLOR",
      text("where it is set and not empty, nothing is in colour; nor is it without a terminal"),
    ],
    ...[
      ".TP",
      ".B NODE_NAME",
      text("name of the node, for a configuration that names none; else the host's name"),
    ],
    ".SH FILES",
    ...[".TP", ".I /etc/kube\\-vhostuser/config.yaml", text("the daemon's configuration")],
    ...[".TP", ".I /run/kube\\-vhostuser/status.sock", text("the daemon's status socket, for root alone")],
  ].join("\n")}\n`;
}

function options(declarations: Readonly<Record<string, DeclaredOption>>): string[] {
  return Object.entries(declarations).flatMap(([name, option]) => [
    ".TP",
    `.B ${text(optionText(name, option))}`,
    text(option.help),
  ]);
}

/** Plain text for troff: hyphens that can be copied, and no line that begins with a request. */
function text(plain: string): string {
  const escaped = plain.replaceAll("\\", "\\e").replaceAll("-", "\\-");
  return /^[.']/.test(escaped) ? `\\&${escaped}` : escaped;
}
