import type { Reporter, TestSpecification } from "vitest/node";
import { plural } from "../src/status/words.ts";

/** A reporter of vitest that sends how far it is to the program that started it. */
// biome-ignore lint/style/noDefaultExport: vitest takes a reporter by its default export
export default class CountTests implements Reporter {
  #files = 0;
  #doneFiles = 0;
  #tests = 0;

  onTestRunStart(specifications: readonly TestSpecification[]): void {
    this.#files = specifications.length;
    this.#send();
  }

  onTestCaseResult(): void {
    this.#tests += 1;
    this.#send();
  }

  onTestModuleEnd(): void {
    this.#doneFiles += 1;
    this.#send();
  }

  #send(): void {
    process.send?.(`${this.#doneFiles} of ${plural(this.#files, "file")}, ${plural(this.#tests, "test")}`);
  }
}
