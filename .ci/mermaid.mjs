// Reads a JSON list of Mermaid texts, parses each with the official parser, and writes what it
// understood: for each text its nodes with decoded labels and its edges.
//
// usage: node .ci/mermaid.mjs <folder with node_modules> < texts.json

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";

const folder = resolve(process.argv[2]);
const require = createRequire(join(folder, "index.js"));
const { JSDOM } = require("jsdom");
const { window } = new JSDOM("");
globalThis.window = window;
globalThis.document = window.document;
const entry = join(folder, "node_modules/mermaid/dist/mermaid.core.mjs");
const { default: mermaid } = await import(pathToFileURL(entry));
mermaid.initialize({ startOnLoad: false });

// What Mermaid sets aside before it parses and puts back before it draws.
const decode = (text) => text.replace(/ﬂ°°(\d+)¶ß/g, (_, code) => String.fromCodePoint(code));

const understood = [];
for (const text of JSON.parse(readFileSync(0, "utf8"))) {
  const { db } = await mermaid.mermaidAPI.getDiagramFromText(text);
  understood.push({
    nodes: [...db.getVertices().values()].map(({ id, text }) => [id, decode(text)]),
    edges: db.getEdges().map(({ start, end, text }) => [start, end, decode(text)]),
  });
}
// Leaving before a pipe has taken everything would cut the answer off.
process.stdout.write(JSON.stringify(understood), () => process.exit(0));
