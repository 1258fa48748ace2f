// Unpacks the browser of the package into a folder: node unpack.mjs FOLDER.
// Its shared libraries come with it, so that nothing has to be on the machine.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliDecompressSync } from "node:zlib";

const folder = process.argv[2];
const packed = (name) =>
  brotliDecompressSync(readFileSync(new URL(`node_modules/@sparticuz/chromium/bin/${name}.br`, import.meta.url)));

mkdirSync(folder, { recursive: true });
for (const name of ["al2023.tar", "fonts.tar"]) {
  execFileSync("tar", ["-x", "-C", folder], { input: packed(name) });
}
// The browser comes last: where it is, everything is.
writeFileSync(join(folder, "unpacking"), packed("chromium"), { mode: 0o755 });
renameSync(join(folder, "unpacking"), join(folder, "chromium"));
