import { printable } from "../../names/printable.ts";
import { type CommandContext, printJson } from "../command-context.ts";
import { EXIT, type ExitCode } from "../commands.ts";
import { paint, type Screen, type Tone } from "../terminal/screen.ts";
import { plural } from "../terminal/units.ts";
import { wrap } from "../terminal/wrap.ts";
import { type Examined, examine } from "./examine.ts";
import type { CheckedHost, Finding } from "./node-check.ts";

/** `vhostuserctl doctor`. A warning alone leaves the node healthy. */
export async function runDoctor(context: CommandContext, host: CheckedHost): Promise<ExitCode> {
  const examined = await examine(host, context.signal);
  if (context.json) printJson(context, examined);
  else context.screen.write(renderExamined(context.screen, examined));
  return count(examined, "problem") === 0 ? EXIT.healthy : EXIT.problem;
}

const MARKS: Readonly<Record<Finding["verdict"], { readonly text: string; readonly tone: Tone }>> = {
  ok: { text: "ok", tone: "good" },
  warning: { text: "WARNING", tone: "warning" },
  problem: { text: "PROBLEM", tone: "bad" },
  skipped: { text: "skipped", tone: "dim" },
};
const MARK = "PROBLEM".length;

/** What the checks found, for people. */
export function renderExamined(screen: Screen, told: readonly Examined[]): string {
  const examined = printable(told);
  const width = Math.max(...examined.map(({ name }) => name.length));
  const indent = width + MARK + 4;
  const lines = examined.flatMap(({ name, findings }) =>
    findings.flatMap(({ verdict, what, cure }, index) => {
      const { text, tone } = MARKS[verdict];
      const head = `${(index === 0 ? name : "").padEnd(width)}  ${paint(screen, tone, text)}${" ".repeat(MARK - text.length)}  `;
      const [first = "", ...rest] = wrap(what, screen.columns - indent);
      const cured = cure === undefined ? [] : wrap(`cure: ${cure}`, screen.columns - indent);
      return [`${head}${first}`, ...[...rest, ...cured].map((line) => " ".repeat(indent) + line)];
    }),
  );
  const [problems, warnings] = [count(examined, "problem"), count(examined, "warning")];
  const sum = [
    problems === 0 ? "no problems" : plural(problems, "problem"),
    ...(warnings === 0 ? [] : [plural(warnings, "warning")]),
  ].join(", ");
  return `${[...lines, "", paint(screen, problems === 0 ? "good" : "bad", sum)].join("\n")}\n`;
}

function count(examined: readonly Examined[], verdict: Finding["verdict"]): number {
  return examined.flatMap(({ findings }) => findings).filter((one) => one.verdict === verdict).length;
}
