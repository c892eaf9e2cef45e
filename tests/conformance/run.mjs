// Runs the official MCP conformance suite against the workbench, as a server (with `conformance-server` behind
// it) and as a client. Writes a table for every run to `results/`.
//
//   node run.mjs [--bin FOLDER] [NAME...]
//
// FOLDER contains the executables (default: `target/debug`). NAMEs select runs, such as `server` or
// `client-0.2-2026-07-28`.
//
// Fails if a scenario fails that isn't in `expected-failures/<run>.yml`, if a scenario in that file passes, or if
// a table differs from the committed one; commit the new table with your change.

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { balance, differences, readExpected, sumUp, table } from './report.mjs';
import { ROOT, Suite, checksOf } from './suite.mjs';

const RUNS = [
    { role: 'server', line: '0.1', revision: '2025-11-25' },
    { role: 'server', line: '0.2', revision: '2025-11-25' },
    { role: 'server', line: '0.2', revision: '2026-07-28' },
    { role: 'client', line: '0.1', revision: '2025-11-25' },
    { role: 'client', line: '0.2', revision: '2025-11-25' },
    { role: 'client', line: '0.2', revision: '2026-07-28' },
];
const MODERN = '2026-07-28';
/** Supported extensions: forwarded by the server, and sign-in by the client. They require MCP 2026-07-28. */
const EXTENSIONS = { server: /^(tasks-|sep-2640-skills-)/, client: /^auth\// };
const CONFIG = 'tests/conformance/workbench.json';
const CLIENT_TIMEOUT = '15000';
const START_TIMEOUT = 30_000;
const END_TIMEOUT = 5_000;
/** Lines of output to show on failure. */
const LINES = 20;

const { values, positionals } = parseArgs({
    options: { bin: { type: 'string', default: join(ROOT, 'target/debug') } },
    allowPositionals: true,
});

/** A relative path, because the suite splits commands at spaces. */
function executable(name) {
    const path = resolve(values.bin, name);
    if (!existsSync(path)) {
        throw new Error(`${path} not found; build it first`);
    }
    return relative(ROOT, path).startsWith('..') ? path : `./${relative(ROOT, path)}`;
}

/** Starts the workbench with `conformance-server` behind it; `era` is `legacy` or `modern`. */
async function startWorkbench(era) {
    const args = ['serve', '--http', '127.0.0.1:0', '--config', CONFIG];
    const server = resolve(ROOT, executable('conformance-server'));
    // Disable the cache: each run's server differs, although its entry is the same.
    const own = { CONFORMANCE_SERVER: server, CONFORMANCE_ERA: era, WORKBENCH_CACHE_DIR: '/dev/null' };
    const child = spawn(executable('mcp-workbench'), args, {
        cwd: ROOT,
        env: { ...process.env, ...own },
        stdio: ['ignore', 'ignore', 'pipe'],
    });
    const ended = new Promise((done) => child.on('close', done));
    let log = '';
    const url = await new Promise((found, failed) => {
        const giveUp = (why) => {
            clearTimeout(timer);
            child.kill('SIGKILL');
            failed(new Error(`the workbench ${why}:\n${log}`));
        };
        const timer = setTimeout(() => giveUp('is not listening'), START_TIMEOUT);
        child.on('error', failed);
        ended.then(() => giveUp('exited'));
        child.stderr.setEncoding('utf8').on('data', (text) => {
            log += text;
            const address = /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(log);
            if (address) {
                clearTimeout(timer);
                found(address[0]);
            }
        });
    });
    const stop = async () => {
        const timer = setTimeout(() => child.kill('SIGKILL'), END_TIMEOUT);
        child.kill('SIGTERM');
        await ended;
        clearTimeout(timer);
    };
    return { url, stop, log: () => log };
}

/** Runs server scenarios: those of the revision together, those of extensions one at a time. */
async function runServer(suite, revision, scenarios, folder) {
    const workbench = await startWorkbench(revision === MODERN ? 'modern' : 'legacy');
    const common = ['server', '--url', workbench.url, '--spec-version', revision, '-o', folder];
    const ends = new Map();
    try {
        const end = await suite.run([...common, '--suite', 'all']);
        for (const { name, tags } of scenarios) {
            const isSingle = !tags.includes(revision);
            const args = [...common, '--scenario', name, '--force'];
            ends.set(name, isSingle ? await suite.run(args) : end);
        }
    } finally {
        await workbench.stop();
    }
    return { ends, log: workbench.log() };
}

/** Runs client scenarios one at a time, because some measure time. */
async function runClient(suite, revision, scenarios, folder) {
    const command = executable('conformance-client');
    const common = ['client', '--command', command, '--timeout', CLIENT_TIMEOUT];
    const ends = new Map();
    for (const { name, tags } of scenarios) {
        const force = tags.includes(revision) ? [] : ['--force'];
        const args = [...common, '--spec-version', revision, '--scenario', name, '-o', folder, ...force];
        ends.set(name, await suite.run(args));
    }
    return { ends, log: '' };
}

/** The checks of a scenario, with an extra failed check if the suite failed without reporting one. */
function judge(role, folder, name, end) {
    const checks = checksOf(folder, role, name);
    if (!checks) {
        return [{ id: 'did-not-run', status: 'FAILURE', description: tail(end.output) }];
    }
    const isBad = checks.some(({ status }) => status === 'FAILURE' || status === 'WARNING');
    if (role === 'client' && end.code !== 0 && !isBad) {
        const said = /Client (exited|timed out)[^]*?(?=\nResults saved)/.exec(end.output);
        const description = said?.[0] ?? tail(end.output);
        checks.push({ id: 'client-exit', status: 'FAILURE', description });
    }
    return checks;
}

function tail(text) {
    return text.trimEnd().split('\n').slice(-LINES).join('\n');
}

/** The scenarios of a run. Server runs exclude OAuth, which tests the suite's own tokens. */
function chosen(all, { role, revision }) {
    return all.filter(({ name, tags }) => {
        const isExtension = revision === MODERN && EXTENSIONS[role].test(name) && tags.includes('extension');
        const isOurs = role === 'client' || !name.startsWith('auth/');
        return isOurs && (tags.includes(revision) || isExtension);
    });
}

/** The command line shown in the report. */
function command({ role, revision }) {
    const subject =
        role === 'server'
            ? '--url http://127.0.0.1:PORT/mcp --suite all'
            : '--command target/debug/conformance-client --scenario NAME';
    return `conformance ${role} ${subject} --spec-version ${revision}`;
}

/** Performs a run; returns the differences from the expected results. */
async function perform(run) {
    const suite = new Suite(run.line);
    const scenarios = chosen(await suite.scenarios(run.role), run);
    const required = await suite.required(run.revision, run.role);
    const folder = mkdtempSync(join(tmpdir(), 'conformance-'));
    const start = run.role === 'server' ? runServer : runClient;
    let rows;
    let log;
    try {
        const done = await start(suite, run.revision, scenarios, folder);
        log = done.log;
        rows = scenarios.map(({ name }) => {
            const checks = judge(run.role, folder, name, done.ends.get(name));
            return sumUp(name, required?.has(name) ?? false, checks);
        });
    } finally {
        rmSync(folder, { recursive: true });
    }
    const expected = readExpected(
        join(import.meta.dirname, `expected-failures/${run.name}.yml`),
        run.role,
    );
    const faults = differences(rows, expected);
    if (faults.length > 0 && log) {
        faults.push(`last log lines of the workbench:\n${tail(log)}`);
    }
    const title = `${run.role === 'server' ? 'Server' : 'Client'}, revision ${run.revision}, suite ${suite.version}`;
    const text = table(title, command(run), rows, expected);
    const path = join(import.meta.dirname, `results/${run.name}.md`);
    const before = existsSync(path) ? readFileSync(path, 'utf8') : '';
    if (text !== before) {
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, text);
        faults.push(`${relative(ROOT, path)} changed: review and commit it`);
    }
    console.log(`${run.name}: ${balance(rows)}`);
    return faults;
}

const runs = RUNS.map((run) => ({ ...run, name: `${run.role}-${run.line}-${run.revision}` }));
const wanted = runs.filter(
    ({ name }) => positionals.length === 0 || positionals.some((word) => name.startsWith(word)),
);
if (wanted.length === 0) {
    console.error(`error: no such run; expected ${runs.map(({ name }) => name).join(', ')}`);
    process.exit(2);
}
for (const run of wanted) {
    let faults;
    try {
        faults = await perform(run);
    } catch (error) {
        faults = [error.message];
    }
    for (const fault of faults) {
        console.error(`error: ${run.name}: ${fault}`);
        process.exitCode = 1;
    }
}
