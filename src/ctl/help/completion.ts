import { COMMANDS, COMMON_OPTIONS, type CommandName, type DeclaredOption, declared } from "../commands.ts";

/** Shells that there are scripts for. */
export type Shell = "bash" | "zsh" | "fish";

/** Lists this node's pods, one `namespace/name` a line; nothing while the daemon is away. */
const PODS = "vhostuserctl completion pods 2>/dev/null";
const NAMES = Object.keys(COMMANDS) as CommandName[];

/** A completion script, to be sourced by the shell. */
export function completionScript(shell: Shell): string {
  switch (shell) {
    case "bash":
      return bash();
    case "zsh":
      return zsh();
    case "fish":
      return fish();
  }
}

function optionsOf(name: CommandName): readonly (readonly [name: string, option: DeclaredOption])[] {
  return Object.entries<DeclaredOption>({ ...declared(name).options, ...COMMON_OPTIONS });
}

function bash(): string {
  const cases = NAMES.map((name) => {
    const words = optionsOf(name).map(([option]) => `--${option}`);
    return `    ${name}) words="${[...words, ...(declared(name).choices ?? [])].join(" ")}" ;;`;
  });
  return `# bash completion of vhostuserctl: source <(vhostuserctl completion bash)
_vhostuserctl() {
  local current="\${COMP_WORDS[COMP_CWORD]}" words=""
  case "\${COMP_WORDS[COMP_CWORD-1]}" in
    --config | --socket) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "${NAMES.join(" ")} help --help --version" -- "$current"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
    help) words="${NAMES.join(" ")}" ;;
  esac
  if [[ \${COMP_WORDS[1]} == trace && $current != -* ]]; then words="$(${PODS})"; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _vhostuserctl vhostuserctl
`;
}

function zsh(): string {
  const commands = NAMES.map((name) => `    '${name}:${declared(name).summary}'`);
  const cases = NAMES.map((name) => {
    const specs = optionsOf(name).map(([option, { help, value }]) => {
      const files = option === "config" || option === "socket" ? "_files" : " ";
      return `'--${option}[${inZsh(help)}]${value === undefined ? "" : `:${value}:${files}`}'`;
    });
    const { argument, choices } = declared(name);
    const last =
      choices !== undefined
        ? [`'1:${argument}:(${choices.join(" ")})'`]
        : argument !== undefined
          ? [`'1:pod:($(${PODS}))'`]
          : [];
    return `    ${name}) _arguments ${[...specs, ...last].join(" ")} ;;`;
  });
  return `#compdef vhostuserctl
# zsh completion of vhostuserctl: source <(vhostuserctl completion zsh)
_vhostuserctl() {
  local -a commands=(
${commands.join("\n")}
  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
${cases.join("\n")}
  esac
}
compdef _vhostuserctl vhostuserctl
`;
}

function inZsh(text: string): string {
  return text.replace(/[[\]:]/g, "\\$&").replaceAll("'", "'\\''");
}

function fish(): string {
  const quote = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const commands = NAMES.map(
    (name) =>
      `complete -c vhostuserctl -n __fish_use_subcommand -a ${name} -d ${quote(declared(name).summary)}`,
  );
  const others = NAMES.flatMap((name) => {
    const when = `complete -c vhostuserctl -n '__fish_seen_subcommand_from ${name}'`;
    const options = optionsOf(name).map(([option, { short, value, help }]) =>
      [
        when,
        `-l ${option}`,
        ...(short === undefined ? [] : [`-s ${short}`]),
        ...(value === undefined ? [] : [option === "config" || option === "socket" ? "-r -F" : "-x"]),
        `-d ${quote(help)}`,
      ].join(" "),
    );
    const { argument, choices } = declared(name);
    if (choices !== undefined) return [...options, `${when} -a ${quote(choices.join(" "))}`];
    return argument === undefined ? options : [...options, `${when} -a '(${PODS})'`];
  });
  return `# fish completion of vhostuserctl: vhostuserctl completion fish | source
complete -c vhostuserctl -f
${[...commands, ...others].join("\n")}
`;
}
