// Sends newcomers' questions to the book's search: `node ask.mjs BOOK QUESTIONS`. Lists the questions whose top
// results contain none of their expected pages.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import vm from "node:vm";

const FIRST = 3;
const [book, questions] = process.argv.slice(2);
const file = (beginning) => {
  const name = readdirSync(book).find((name) => name.startsWith(beginning) && name.endsWith(".js"));
  if (!name) throw new Error(`no ${beginning}*.js in ${book}; build the book first`);
  return readFileSync(join(book, name), "utf8");
};

const page = { search: {} };
const world = vm.createContext({ window: page, self: page });
vm.runInContext(file("elasticlunr"), world);
vm.runInContext(file("searchindex"), world);
const { index, doc_urls, search_options } = page.search;
const elasticlunr = page.elasticlunr ?? world.elasticlunr;
const search = elasticlunr.Index.load(index);

let unanswered = 0;
const asked = JSON.parse(readFileSync(questions, "utf8"));
for (const { asked: question, answered_by: wanted } of asked) {
  const found = search.search(question, search_options).slice(0, FIRST);
  const pages = found.map(({ ref }) => doc_urls[ref]);
  const at = pages.findIndex((url) => wanted.some((page) => url.startsWith(`${page}.html`)));
  console.log(at < 0 ? "not found" : `result ${at + 1} `, question, "→", at < 0 ? pages.join(", ") : pages[at]);
  unanswered += at < 0 ? 1 : 0;
}
console.log(`${asked.length - unanswered} of ${asked.length} questions find their page`);
process.exit(unanswered ? 1 : 0);
