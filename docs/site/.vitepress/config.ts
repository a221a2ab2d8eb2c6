// The documentation site: every Markdown page of the repository, with search. `npm run docs:site` builds it, in a folder
// of its own that has this one's files and, in pages/, those pages.
import { readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { type DefaultTheme, defineConfig } from "vitepress";

const PAGES = join(import.meta.dirname, "../pages");
const REPOSITORY = "https://github.com/kube-vhostuser/kube-vhostuser";

export default defineConfig({
  title: "kube-vhostuser",
  description: "vhost-user networking for KubeVirt VMs and DPDK pods",
  srcDir: PAGES,
  outDir: join(PAGES, "../../site"),
  // README.md is a folder's index page.
  rewrites: (page) => page.replace(/(^|\/)README\.md$/, "$1index.md"),
  cleanUrls: false,
  ignoreDeadLinks: "localhostLinks",
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [
      { text: "Documentation", link: "/docs/" },
      { text: "Decisions", link: "/docs/decisions/" },
    ],
    sidebar: sidebarOf("docs/README.md"),
    socialLinks: [{ icon: "github", link: REPOSITORY }],
  },
  markdown: {
    // Angle brackets in prose are text.
    html: false,
    anchor: { slugify: slugOf },
    config(md) {
      // Indented code looks like fenced code.
      if (md.renderer.rules.fence) md.renderer.rules.code_block = md.renderer.rules.fence;
      const open = md.renderer.rules.link_open;
      md.renderer.rules.link_open = (tokens, index, options, env, self) => {
        const href = tokens[index]?.attrGet("href") ?? "";
        const page: string = env.relativePath;
        if (isFileOfRepository(href)) tokens[index]?.attrSet("href", addressOf(href, page));
        const text = tokens[index + 1];
        // A link whose text is its file's name has the page's title on the site.
        if (text?.content === href.replace(/#.*/, "") && /^[\w-]+\.md$/.test(text.content))
          text.content = titleOf(posix.join(posix.dirname(page), text.content));
        // As `rewrites` has renamed it, which VitePress does not apply to links.
        if (/(^|\/)README\.md(#|$)/.test(href))
          tokens[index]?.attrSet("href", href.replace("README.md", "index.md"));
        return open ? open(tokens, index, options, env, self) : self.renderToken(tokens, index, options);
      };
    },
  },
});

/** A heading's anchor as GitHub makes it, which is what links in the pages have. */
function slugOf(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M}\p{Pc}\- ]/gu, "")
    .replaceAll(" ", "-");
}

/** A relative link to something that is not a page: a manifest, a test, a folder of the source. */
function isFileOfRepository(href: string): boolean {
  return !/^([a-z]+:|#|\/)/.test(href) && !/\.(md|html)(#|$)/.test(href);
}

function addressOf(href: string, page: string): string {
  return `${REPOSITORY}/blob/main/${posix.join(posix.dirname(page), href)}`;
}

/** A group for each heading of the page's tables, an entry for each page that they link to. */
function sidebarOf(file: string): DefaultTheme.SidebarItem[] {
  const text = readFileSync(join(PAGES, file), "utf8");
  const groups: DefaultTheme.SidebarItem[] = [];
  for (const line of text.split("\n")) {
    const heading = /^## (.*)/.exec(line)?.[1];
    if (heading !== undefined) groups.push({ text: heading, collapsed: groups.length > 0, items: [] });
    const group = groups.at(-1);
    for (const [, target] of line.matchAll(/\]\(([^)#:]+\.md)\)/g)) {
      const page = posix.join(posix.dirname(file), target ?? "");
      group?.items?.push({ text: titleOf(page), link: `/${page.replace(/README\.md$/, "")}` });
    }
  }
  return groups;
}

function titleOf(page: string): string {
  return /^# (.*)/m.exec(readFileSync(join(PAGES, page), "utf8"))?.[1] ?? page;
}
