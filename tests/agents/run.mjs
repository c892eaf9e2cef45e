// `just agents`: runs real clients with a scripted model, with and without the workbench.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { networkInterfaces, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import * as claude from './client/claude.mjs';
import { code, known, unknown } from './client/codex.mjs';
import * as copilot from './client/copilot.mjs';
import { write } from './client/files.mjs';
import * as gemini from './client/gemini.mjs';
import * as opencode from './client/opencode.mjs';
import * as qwen from './client/qwen.mjs';
import { PAGES, inWords, whole, withTables } from './report.mjs';
import { configuration, prepare, servers } from './servers.mjs';
import { environment, session, version } from './session.mjs';
import { TASKS } from './tasks.mjs';

const CLIENTS = {
    claude,
    codex: code,
    'codex-search': known,
    'codex-other': unknown,
    gemini,
    opencode,
    qwen,
    copilot,
};
const MODES = [
    'native',
    'auto',
    'auto (cold)',
    'dynamic',
    'proxy',
    'search',
    'navigate',
    'activate',
    'modular',
    'direct',
];
const HELP = `usage: just agents [options]

  --quick          run one task in each client, in mode auto
  --client NAME    only this client: ${Object.keys(CLIENTS).join(', ')}
  --mode NAME      only this mode: ${MODES.join(', ')}
  --task NAME      only this task: ${TASKS.map((task) => task.name).join(', ')}
  --binary PATH    executable of the workbench [default: target/debug/mcp-workbench]
  --dump FOLDER    save all requests, responses and client output to this folder
  --write          write the results to results.json, README.md and docs/costs.md

--client, --mode and --task are repeatable.`;

const root = resolve(import.meta.dirname, '../..');
const results = join(import.meta.dirname, 'results.json');

const { values } = parseArgs({
    options: {
        quick: { type: 'boolean' },
        client: { type: 'string', multiple: true },
        mode: { type: 'string', multiple: true },
        task: { type: 'string', multiple: true },
        binary: { type: 'string', default: join(root, 'target/debug/mcp-workbench') },
        dump: { type: 'string' },
        write: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
    },
});

function chosen(all, names, what) {
    for (const name of names ?? []) {
        if (!all.includes(name))
            fail(`unknown ${what} \`${name}\`; expected one of ${all.join(', ')}`);
    }
    return all.filter((name) => !names || names.includes(name));
}

function fail(problem) {
    process.stderr.write(`error: ${problem}\n`);
    process.exit(2);
}

if (values.help) {
    console.log(HELP);
    process.exit(0);
}
const quick = values.quick ? { mode: ['auto'], task: ['one'] } : {};
const clients = chosen(Object.keys(CLIENTS), values.client, 'client');
const modes = chosen(MODES, values.mode ?? quick.mode, 'mode');
const tasks = chosen(
    TASKS.map((task) => task.name),
    values.task ?? quick.task,
    'task',
);
if (!existsSync(values.binary)) fail(`\`${values.binary}\` not found; run \`cargo build\` first`);
const beyond = Object.values(networkInterfaces())
    .flat()
    .filter((address) => !address.internal);
if (beyond.length > 0) fail('other networks than loopback are reachable; run scripts/agents.sh');

const run = mkdtempSync(join(tmpdir(), 'mcp-workbench-agents-'));
process.on('exit', () => rmSync(run, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130));

const env = join(root, '.test-env');
const work = join(run, 'work');
const world = {
    run,
    env,
    work,
    template: join(run, 'template'),
    cache: join(run, 'cache'),
    binary: resolve(values.binary),
    servers: servers(env, work),
    dump: values.dump && resolve(values.dump),
};
prepare(world.template, join(env, 'agents-python/bin/python'));
prepare(world.work, join(env, 'agents-python/bin/python'));
mkdirSync(world.cache);
if (modes.some((mode) => mode !== 'native' && mode !== 'auto (cold)')) {
    // Fill the listing cache, as for a user who has run the workbench before. The servers' working directory is part
    // of the cache key, so start them from the folder that the sessions use.
    const file = write(join(run, 'home/workbench.json'), configuration(world.servers, 'dynamic'));
    const options = { env: { ...environment(run), XDG_CACHE_HOME: world.cache }, cwd: run };
    const said = execFileSync(world.binary, ['--config', file, 'cache', 'refresh'], options);
    process.stderr.write(said);
}

const versions = Object.fromEntries(Object.values(CLIENTS).map((client) => [client.name, version(client, env)]));
const rows = [];
for (const key of clients) {
    const client = { ...CLIENTS[key], key };
    for (const mode of modes) {
        for (const task of TASKS.filter((task) => tasks.includes(task.name))) {
            const result = await session({ client, mode, task, world });
            const { works, requests, bytes, seconds } = result;
            rows.push({
                client: client.name,
                version: versions[client.name],
                model: client.model,
                mode,
                task: task.name,
                works,
                requests,
                bytes,
                seconds,
            });
            process.stderr.write(`${inWords(rows.at(-1))}\n`);
        }
    }
}
console.log(`${whole(rows)}\n`);
if (values.write) {
    const before = existsSync(results) ? JSON.parse(readFileSync(results, 'utf8')) : [];
    const all = merged(before, rows);
    writeFileSync(results, `${JSON.stringify(all, null, 1)}\n`);
    for (const page of PAGES) {
        const file = join(root, page);
        writeFileSync(file, withTables(readFileSync(file, 'utf8'), all));
    }
}

/** Replaces earlier results with new ones, and drops those of other versions; sorted by client, mode and task. */
function merged(before, rows) {
    const known = Object.values(CLIENTS);
    const place = ({ client, model }) =>
        known.findIndex((other) => other.name === client && other.model === model);
    const taskNames = TASKS.map((task) => task.name);
    const key = (row) => place(row) * 10_000 + MODES.indexOf(row.mode) * 100 + taskNames.indexOf(row.task);
    const current = before.filter((row) => place(row) >= 0 && row.version === versions[row.client]);
    const kept = current.filter((row) => !rows.some((other) => key(other) === key(row)));
    return [...kept, ...rows].sort((one, other) => key(one) - key(other));
}
