import type { ToolStep } from "./run-tool.ts";

/** What `npm run lint` runs, in this order. @param write formats and repairs instead */
export function lintSteps(write = false): readonly ToolStep[] {
  const format = { name: "format", doing: "format and lint", tool: "biome" };
  if (write) return [{ ...format, args: ["check", "--write", "."] }];
  return [
    { ...format, args: ["check", "--error-on-warnings", "."] },
    { name: "types", doing: "types", tool: "tsc", args: [] },
    // For browsers: other globals.
    {
      ...{ name: "page-types", doing: "types of the status page", tool: "tsc" },
      args: ["--project", "src/status/page/browser"],
    },
    {
      ...{ name: "links", doing: "links and anchors of all documents", tool: "remark" },
      args: ["--frail", "--quiet", "--no-stdout", "--ignore-pattern", "dist", "."],
    },
  ];
}
