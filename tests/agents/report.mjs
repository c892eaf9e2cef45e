// Reports the results as text and tables.

/** Bytes per token, measured on requests of this kind. */
const BYTES_PER_TOKEN = 4.5;

/** A progress line. */
export function inWords(row) {
    const { mode, task, works, requests, bytes, seconds } = row;
    const what = works
        ? `${requests} requests, ${number(bytes)} bytes`
        : `FAILS after ${requests} requests`;
    return `${title(row)}, ${mode}, ${task}: ${what}, ${seconds.toFixed(1)} s`;
}

/** The client with its version and model; a last part `.0` of the version is left out. */
export function title({ client, version, model }) {
    return `${client} ${version.replace(/\.0$/, '')}, ${model}`;
}

/** Sums the results per client and mode, in order of first appearance. */
export function folded(rows) {
    const groups = new Map();
    for (const row of rows) {
        const client = title(row);
        const key = `${client}\n${row.mode}`;
        const sum = groups.get(key) ?? {
            client,
            mode: row.mode,
            tasks: 0,
            works: 0,
            requests: 0,
            bytes: 0,
            seconds: 0,
        };
        sum.tasks += 1;
        sum.works += row.works ? 1 : 0;
        for (const member of ['requests', 'bytes', 'seconds']) sum[member] += row[member];
        groups.set(key, sum);
    }
    return [...groups.values()];
}

/** The full table, one row per client and mode. */
export function whole(rows) {
    const head = ['client, model', 'mode', 'works', 'requests', 'bytes', 'tokens', 'seconds'];
    const lines = folded(rows).map((sum) => [
        sum.client,
        inFull(sum.mode),
        sum.works === sum.tasks ? 'yes' : `${sum.works} of ${sum.tasks}`,
        sum.requests,
        number(sum.bytes),
        number(Math.round(sum.bytes / BYTES_PER_TOKEN)),
        sum.seconds.toFixed(1),
    ]);
    return table(head, lines, [0, 0, 0, 1, 1, 1, 1]);
}

/** The README's table, one row per client: bytes and requests without and with the workbench. */
export function brief(rows) {
    const sums = folded(rows);
    const find = (client, mode) =>
        sums.find((sum) => sum.client === client && sum.mode === mode && sum.works === sum.tasks);
    const lines = [...new Set(sums.map((sum) => sum.client))].map((client) => {
        const [without, withIt, cold] = ['native', 'auto', 'auto (cold)'].map((mode) =>
            find(client, mode),
        );
        return [
            client,
            kilobytes(without),
            kilobytes(withIt),
            change(without, withIt),
            change(without, cold),
            `${without?.requests ?? '–'} → ${withIt?.requests ?? '–'}`,
        ];
    });
    const head = ['client, model', 'without', 'with', 'change', 'first run', 'requests'];
    return table(head, lines, [0, 1, 1, 1, 1, 1]);
}

function kilobytes(sum) {
    return sum ? `${Math.round(sum.bytes / 1000)} kB` : 'fails';
}

/** The change in percent, with a sign. */
function change(without, withIt) {
    if (!without || !withIt) return '–';
    const percent = Math.round((100 * (withIt.bytes - without.bytes)) / without.bytes);
    return percent > 0 ? `+${percent}%` : `−${-percent}%`;
}

function inFull(mode) {
    return mode === 'native' ? 'without the workbench' : mode.replace(/^(\w+)/, '`$1`');
}

function table(head, lines, right) {
    const row = (cells) => `| ${cells.join(' | ')} |`;
    const rule = row(right.map((right) => (right ? '---:' : '---')));
    return [row(head), rule, ...lines.map(row)].join('\n');
}

/** Formats a number with thousands separators. */
function number(value) {
    return String(value).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** The pages with tables. */
export const PAGES = ['README.md', 'docs/costs.md'];

/** Puts the tables into a page, each between its two marker comments. */
export function withTables(text, rows) {
    const tables = { 'agents in brief': brief(rows), 'agents in full': whole(rows) };
    const shown = Object.keys(tables).filter((name) => text.includes(`<!-- ${name} -->`));
    return shown.reduce((text, name) => between(text, tables[name], name), text);
}

/** Replaces the table between the two marker comments. */
export function between(text, table, name) {
    const [begin, end] = [`<!-- ${name} -->`, `<!-- end of ${name} -->`];
    const [before, rest] = text.split(begin);
    const after = rest?.split(end)[1];
    if (after === undefined) throw new Error(`missing ${begin} followed by ${end}`);
    return `${before}${begin}\n\n${table}\n\n${end}${after}`;
}
