/** One metric as a scrape shows it. */
export interface Family {
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  /** Value by series as the text has it, for example `up{job="a"}`. */
  readonly series: ReadonlyMap<string, number>;
}

const NAME = "[a-zA-Z_][a-zA-Z0-9_]*";
const VALUE = String.raw`[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf)|NaN`;
const LABEL = String.raw`${NAME}="(?:[^"\\\n]|\\["\\n])*"`;
const SAMPLE = new RegExp(`^(${NAME})(?:\\{(${LABEL}(?:,${LABEL})*)\\})? (${VALUE})$`);

/**
 * Reads Prometheus' text format 0.0.4 as strictly as `promtool check metrics` does: HELP and TYPE once and before the
 * samples, families in one piece, no series twice, counters and histograms as their type asks.
 * @throws Error naming the line
 */
export function readExposition(text: string): ReadonlyMap<string, Family> {
  if (!text.endsWith("\n")) throw new Error("the last line has no end");
  const families = new Map<string, Family & { readonly series: Map<string, number> }>();
  let current: string | undefined;
  let help: { readonly name: string; readonly text: string } | undefined;
  for (const [index, line] of text.slice(0, -1).split("\n").entries()) {
    const refuse = (why: string): never => {
      throw new Error(`line ${index + 1}: ${why}: ${line}`);
    };
    if (line === "") continue;
    const comment = new RegExp(`^# (HELP|TYPE) (${NAME}) (.+)$`).exec(line);
    if (comment !== null) {
      const [, kind, name = "", rest = ""] = comment;
      if (kind === "HELP") {
        if (families.has(name)) refuse("HELP a second time or after samples");
        help = { name, text: rest };
        continue;
      }
      if (help?.name !== name) refuse("TYPE without its HELP before it");
      if (families.has(name)) refuse("a family in two pieces");
      if (rest !== "counter" && rest !== "gauge" && rest !== "histogram") return refuse("unknown type");
      if (rest === "counter" && !name.endsWith("_total")) refuse("a counter's name must end with _total");
      families.set(name, { type: rest, help: help?.text ?? "", series: new Map() });
      current = name;
      continue;
    }
    const [, name, labels = "", value] = SAMPLE.exec(line) ?? refuse("not a sample");
    const family = families.get(current ?? "");
    if (family === undefined || name === undefined) return refuse("a sample without a family");
    const allowed =
      family.type === "histogram" ? [`${current}_bucket`, `${current}_sum`, `${current}_count`] : [current];
    if (!allowed.includes(name)) refuse(`a sample of another family than ${current}`);
    const names = [...labels.matchAll(new RegExp(`(${NAME})="`, "g"))].map(([, label]) => label);
    if (new Set(names).size < names.length) refuse("a label twice");
    const series = line.slice(0, line.lastIndexOf(" "));
    const key = `${name}{${labels.split(/,(?=[a-zA-Z_]\w*=")/).sort()}}`;
    if ([...family.series.keys()].some((other) => canonical(other) === key)) refuse("a series twice");
    const number = Number(value === "+Inf" ? "Infinity" : value);
    if (family.type === "counter" && !(number >= 0)) refuse("a counter below 0");
    family.series.set(series, number);
  }
  for (const [name, family] of families) if (family.type === "histogram") checkHistogram(name, family);
  return families;
}

function canonical(series: string): string {
  const [, name, labels = ""] = SAMPLE.exec(`${series} 0`) ?? [];
  return `${name}{${labels.split(/,(?=[a-zA-Z_]\w*=")/).sort()}}`;
}

/** Buckets must grow, and the last one, `+Inf`, be the count. */
function checkHistogram(name: string, { series }: Family): void {
  const counts = [...series].filter(([key]) => key.startsWith(`${name}_count`));
  const rest = (key: string) =>
    key
      .replace(/^\w+_(bucket|count)/, "")
      .replace(/le="[^"]*",?/, "")
      .replace(/,\}$/, "}")
      .replace(/^\{\}$/, "");
  for (const [key, count] of counts) {
    const buckets = [...series].filter(
      ([other]) => other.startsWith(`${name}_bucket`) && rest(other) === rest(key),
    );
    const values = buckets.map(([, value]) => value);
    if (values.length === 0) throw new Error(`${key} has no buckets`);
    if (values.some((value, index) => value < (values[index - 1] ?? 0))) {
      throw new Error(`the buckets of ${key} do not grow`);
    }
    const [last, inf] = buckets.at(-1) ?? [];
    if (last?.includes('le="+Inf"') !== true || inf !== count) {
      throw new Error(`the last bucket of ${key} is not its count`);
    }
  }
}
