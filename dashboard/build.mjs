// Writes index.html, dashboard.js and dashboard.css into api/static, or into the folder given.
import { copyFile, mkdir } from "node:fs/promises";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const into = resolve(process.argv[2] ?? `${here}/../api/static`);

await mkdir(into, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: [
    { in: "src/main.ts", out: "dashboard" },
    { in: "src/styles/index.css", out: "dashboard" },
  ],
  outdir: into,
  bundle: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  // Not minified: it is committed, and a reader of the commit shall see what it does.
  minify: false,
  logLevel: "warning",
});
await copyFile(`${here}/src/index.html`, `${into}/index.html`);
