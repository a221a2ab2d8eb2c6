import { parser } from "@prometheus-io/lezer-promql";

/** A metric that an expression asks for. */
export interface Selector {
  readonly metric: string;
  readonly matchers: readonly Matcher[];
}

/** `label="value"` in braces. */
export interface Matcher {
  readonly label: string;
  readonly value: string;
}

/** What an expression of PromQL names. */
export interface PromQl {
  readonly selectors: readonly Selector[];
  /** Labels in `by`, `without`, `on`, `ignoring`, `group_left` and the like. */
  readonly groupings: readonly string[];
}

type Tree = ReturnType<typeof parser.parse>;

/**
 * Reads an expression with Prometheus' own grammar.
 * @throws Error with the place of the syntax error
 */
export function readPromQl(text: string): PromQl {
  const tree: Tree = parser.parse(text);
  const selectors: { metric: string; matchers: Matcher[] }[] = [];
  const groupings: string[] = [];
  let isGrouping = false;
  tree.iterate({
    enter({ type, name, from, to, node }) {
      const part = text.slice(from, to);
      if (type.isError) throw new Error(`not PromQL at character ${from}: ${text.slice(from, from + 40)}`);
      if (name === "VectorSelector") {
        const identifier = node.getChild("Identifier");
        if (identifier === null) throw new Error(`a selector without a metric: ${part}`);
        selectors.push({ metric: text.slice(identifier.from, identifier.to), matchers: [] });
      }
      if (name === "UnquotedLabelMatcher") {
        const [, label = "", value = ""] = /^(\w+)\s*[=!]~?\s*"(.*)"$/s.exec(part) ?? [];
        selectors.at(-1)?.matchers.push({ label, value });
      }
      if (name === "GroupingLabels") isGrouping = true;
      if (name === "LabelName" && isGrouping) groupings.push(part);
    },
    leave({ name }) {
      if (name === "GroupingLabels") isGrouping = false;
    },
  });
  return { selectors, groupings };
}
