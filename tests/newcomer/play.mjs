// `just newcomer`: acts as a new user whose five clients already have servers. Runs `setup`, a task in each of
// four agents, adds a server, and runs `setup undo`.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import {
    cpSync,
    existsSync,
    mkdirSync,
    mkdtempSync,
    readFileSync,
    rmSync,
    statSync,
    writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import * as claude from '../agents/client/claude.mjs';
import { known as codex } from '../agents/client/codex.mjs';
import * as gemini from '../agents/client/gemini.mjs';
import * as opencode from '../agents/client/opencode.mjs';
import { start } from '../agents/endpoint.mjs';
import { prepare } from '../agents/servers.mjs';
import { environment, run } from '../agents/session.mjs';
import { TASKS, prompt } from '../agents/tasks.mjs';
import { changed, changes, comments, snapshot, unlike, valueOf } from './compare.mjs';
import { shown } from './documented.mjs';
import { FILES, make } from './home.mjs';

/**
 * The agents, each with a task for its own servers (`own`), a task that needs another client's servers, and its
 * command that adds a server (`add`).
 */
const AGENTS = {
    'Claude Code': {
        client: claude,
        own: 'one',
        other: 'two',
        add: ['mcp', 'add', '-s', 'user', 'thinking', '--'],
    },
    Codex: {
        client: { ...codex, name: 'Codex' },
        own: 'two',
        other: 'chain',
        add: ['mcp', 'add', 'thinking', '--'],
    },
    'Gemini CLI': {
        client: gemini,
        own: 'one',
        other: 'chain',
        add: ['mcp', 'add', '-s', 'user', 'thinking'],
    },
    opencode: {
        client: opencode,
        own: 'chain',
        other: 'two',
        add: ['mcp', 'add', 'thinking', '--'],
    },
};
const THINKING = ['npx', '-y', '@modelcontextprotocol/server-sequential-thinking'];
/** Keys of the server block that aren't `mcpServers`. */
const SERVERS = { Codex: 'mcp_servers', opencode: 'mcp' };
/** Folders that `setup undo` leaves behind, as it reports. */
const KEPT = ['.cache/mcp-workbench/', '.local/state/mcp-workbench/'];

const root = resolve(import.meta.dirname, '../..');
const { values } = parseArgs({
    options: {
        binary: { type: 'string', default: join(root, 'target/debug/mcp-workbench') },
        keep: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
    },
});
if (values.help) {
    console.log(`usage: just newcomer [options]

  --binary PATH    executable of the workbench [default: target/debug/mcp-workbench]
  --keep           keep the temporary home and print its path`);
    process.exit(0);
}
const fail = (problem) => {
    process.stderr.write(`error: ${problem}\n`);
    process.exit(2);
};
if (!existsSync(values.binary)) fail(`\`${values.binary}\` not found; run \`cargo build\` first`);
const beyond = Object.values(networkInterfaces()).flat();
if (beyond.some((address) => !address.internal))
    fail('other networks than loopback are reachable; run scripts/newcomer.sh');

const folder = mkdtempSync(join(tmpdir(), 'mcp-workbench-newcomer-'));
const children = [];
process.on('exit', () => {
    for (const child of children) child.kill('SIGKILL');
    if (values.keep) process.stderr.write(`temporary home: ${home}\n`);
    else rmSync(folder, { recursive: true, force: true });
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130));

const env = join(root, '.test-env');
const home = join(folder, 'ada');
const work = join(home, 'projects/harbour');
const world = { env, work };
const python = join(env, 'agents-python/bin/python');
const programs = ['agents/node_modules/.bin', 'agents-python/bin', 'agents-python-v1/bin'];
const path = [join(home, '.local/bin'), ...programs.map((own) => join(env, own)), process.env.PATH];

const began = Date.now();
const endpoint = await start(world);
const remote = await everything();
make(home, {
    binary: resolve(values.binary),
    modules: join(env, 'agents/node_modules'),
    known: { home, work, model: endpoint.url, remote },
});
prepare(work, python);
const original = texts(home);
const counts = Object.keys(FILES).map(
    (name) => `${name} ${Object.keys(serversOf(name, original)).length}`,
);
step(`five clients and their number of servers: ${counts.join(', ')}`);

nobodyRanAnything();
await agentsRan();
serverWasAdded();
await agentsWorkAsBefore();
await secretsAndRulesSurvive();
documentedCommandsWork();
await endpoint.stop();
step('done');
process.exit(0);

// --- scenarios ---------------------------------------------------------------------------------

/** Preview, `setup` twice, `setup undo`: the home is unchanged. */
function nobodyRanAnything() {
    const before = snapshot(home);
    const left = () => unlike(before, snapshot(home), { without: KEPT });
    workbench('setup', '--dry-run');
    assert.deepEqual(left(), [], '`setup --dry-run` changed files');
    step('`setup --dry-run` changes nothing');

    const said = workbench('setup', '--yes');
    process.stdout.write(`${said.replace(/^/gm, '    ')}\n`);
    const written = Object.values(FILES).map((file) => file.path);
    const ours = ['config.json', 'config.secrets.env'].map((own) => `.config/mcp-workbench/${own}`);
    assert.deepEqual(left(), [...written, ...ours].sort());
    checkSetUp();
    step('`setup --yes`: each client starts the workbench with all servers');

    const after = snapshot(home);
    assert.match(workbench('setup', '--yes'), /nothing to do/);
    assert.deepEqual(unlike(after, snapshot(home), { without: KEPT }), []);
    step('`setup --yes` again: nothing to do');

    workbench('setup', 'undo');
    assert.deepEqual(left(), [], '`setup undo` did not restore all files');
    step('`setup undo`: every file is restored exactly');
}

/** `setup`, a task in each agent, `setup undo`: only the agents' own changes remain. */
async function agentsRan() {
    workbench('setup', '--yes');
    const set = texts(home);
    for (const [name, { client, other }] of Object.entries(AGENTS)) {
        await task(name, client, other, { isByWorkbench: true });
    }
    const ran = texts(home);
    workbench('setup', 'undo');
    const undone = texts(home);
    for (const [name, file] of Object.entries(FILES)) {
        if (ran[name] === set[name]) {
            assert.equal(undone[name], original[name], `the file of ${name} was not restored exactly`);
            step(`${name} did not write ${file.path}: restored exactly`);
            continue;
        }
        const own = changes(value(name, set), value(name, ran));
        assert.deepEqual(value(name, undone), changed(value(name, original), own));
        const parts = [...new Set(own.map(({ at }) => at[0]))];
        step(`${name} wrote ${parts.join(', ')} in ${file.path}: everything else is restored`);
    }
    reset();
}

/** A second `setup` imports a server that each agent added with its own command; `setup undo` restores it. */
function serverWasAdded() {
    // The files as they would be without the workbench.
    add();
    const alone = texts(home);
    reset();

    workbench('setup', '--yes');
    add();
    const { clients } = JSON.parse(workbench('setup', '--yes', '--json'));
    for (const name of Object.keys(AGENTS)) {
        const { removed } = clients.find((client) => client.title === name) ?? {};
        assert.deepEqual(removed, ['thinking'], `${name}: ${JSON.stringify(clients)}`);
    }
    const all = Object.values(configured().toolboxes).flatMap(({ mcpServers }) =>
        Object.keys(mcpServers),
    );
    assert.equal(all.filter((server) => server === 'thinking').length, 1);
    checkSetUp();
    step('a server that four agents added is imported once');

    workbench('setup', 'undo');
    const undone = texts(home);
    for (const [name, file] of Object.entries(FILES)) {
        assert.deepEqual(
            value(name, undone),
            value(name, alone),
            `${name} differs from a run without the workbench`,
        );
        // Codex drops some comments when it adds a server. Comments on imported servers must survive.
        const notes = comments(file.path, undone[name]);
        const lost = comments(file.path, alone[name]).filter((note) => !notes.includes(note));
        assert.deepEqual(lost, [], `${name} lost comments`);
        if (!AGENTS[name]) assert.equal(undone[name], original[name]);
    }
    step('`setup undo`: same result as adding the server without the workbench, with all comments');
    reset();
}

/** Each agent completes a task with its own servers again, which also shows that its file is valid. */
async function agentsWorkAsBefore() {
    for (const [name, { client, own }] of Object.entries(AGENTS)) {
        await task(name, client, own, { isByWorkbench: false });
    }
}

/**
 * A server that needs a variable of the environment, and of which each agent denies another tool: `setup`, an edit of
 * the configuration, a new secret, `setup` again, a task in each agent, `setup undo`.
 */
async function secretsAndRulesSurvive() {
    const seen = join(home, 'seen.txt');
    const script = join(import.meta.dirname, 'harbour-server.mjs');
    const launch = { command: process.execPath, args: [script, seen] };
    const [command, args] = [launch.command, launch.args].map((part) => JSON.stringify(part));
    const change = (name, edit) => {
        const all = value(name, texts(home));
        edit(all);
        writeFileSync(join(home, FILES[name].path), JSON.stringify(all, undefined, 2));
    };
    change('Claude Code', ({ mcpServers }) => {
        mcpServers.harbour = { ...launch, env: { HARBOUR_TOKEN: '${HARBOUR_TOKEN}' } };
    });
    const rules = join(home, '.claude/settings.json');
    const rulesBefore = existsSync(rules) ? readFileSync(rules, 'utf8') : '{}';
    mkdirSync(join(home, '.claude'), { recursive: true });
    const own = JSON.parse(rulesBefore);
    const denied = { ...own, permissions: { ...own.permissions, deny: ['mcp__harbour__strike'] } };
    writeFileSync(rules, JSON.stringify(denied));
    change('Gemini CLI', ({ mcpServers }) => {
        const env = { HARBOUR_TOKEN: '$HARBOUR_TOKEN' };
        mcpServers.harbour = { ...launch, env, excludeTools: ['sink'] };
    });
    change('opencode', (all) => {
        all.mcp.harbour = {
            type: 'local',
            command: [launch.command, ...launch.args],
            environment: { HARBOUR_TOKEN: '{env:HARBOUR_TOKEN}' },
        };
        all.tools = { harbour_burn: false };
    });
    const codexFile = join(home, FILES.Codex.path);
    const table = `\n[mcp_servers.harbour]\ncommand = ${command}\nargs = ${args}\n`;
    const keys = 'env_vars = ["HARBOUR_TOKEN"]\ndisabled_tools = ["scuttle"]\n';
    writeFileSync(codexFile, readFileSync(codexFile, 'utf8') + table + keys);
    const before = texts(home);

    workbench('setup', '--yes');
    const file = join(home, '.config/mcp-workbench/config.json');
    const config = configured();
    const [toolbox, { mcpServers }] = Object.entries(config.toolboxes).find(
        ([, { mcpServers }]) => mcpServers.harbour,
    );
    assert.deepEqual(mcpServers.harbour.toolFilters.toSorted(), ['!burn', '!scuttle', '!sink', '!strike']);
    // `call` redacts the value.
    assert.match(workbench('call', toolbox, 'harbour', 'hoist', '{}'), /hoist with \*{3}/);
    for (const tool of ['strike', 'sink', 'burn', 'scuttle'])
        assert.throws(() => workbench('call', toolbox, 'harbour', tool, '{}'), tool);
    step('each agent\'s rule about a tool holds after `setup`');

    // An edit, and a server with a new secret: the second `setup` adds to both files.
    mcpServers.harbour.eager = true;
    writeFileSync(file, JSON.stringify(config));
    change('Cursor', ({ mcpServers }) => {
        mcpServers.spare = { ...launch, env: { HARBOUR_TOKEN: 'hbr-spare-5d1f0a8377aa' } };
    });
    workbench('setup', '--yes');
    for (const [name, { client, other }] of Object.entries(AGENTS)) {
        writeFileSync(seen, 'not started');
        await task(name, client, other, { isByWorkbench: true });
        assert.equal(readFileSync(seen, 'utf8'), 'hbr-77', `${name} does not pass the variable on`);
    }
    step('four agents pass the variable on to the server');

    workbench('setup', 'undo');
    const undone = texts(home);
    for (const name of ['Codex', 'Gemini CLI', 'opencode']) {
        const [now, then] = [undone, before].map((all) => serversOf(name, all));
        assert.deepEqual(now, then, name);
    }
    const secrets = readFileSync(join(home, '.config/mcp-workbench/config.secrets.env'), 'utf8');
    assert.match(secrets, /=ctx7sk-5d1f0a83/);
    assert.match(secrets, /=hbr-spare-5d1f0a8377aa/);
    step('`setup undo` keeps an edited configuration with all its secrets');
    rmSync(join(home, '.config/mcp-workbench'), { recursive: true });
    writeFileSync(rules, rulesBefore);
    reset();
}

/** Runs each `claude mcp add` line of the docs in a shell. */
function documentedCommandsWork() {
    const lines = shown(root, 'claude mcp add');
    assert.ok(lines.length > 2, `the docs show only ${lines}`);
    for (const line of lines) {
        const [, name] = /(?: --transport http| -s user)+ ([\w-]+) /.exec(line) ?? [];
        const options = {
            cwd: work,
            env: { ...surroundings(), CLAUDE: programOf(claude) },
            encoding: 'utf8',
        };
        execFileSync('sh', ['-c', line.replace(/^claude/, '"$CLAUDE"')], options);
        const entry = value('Claude Code', texts(home)).mcpServers[name];
        const [, url] = /(http:\S+)/.exec(line) ?? [];
        const expanded = line.replaceAll('"', '').replaceAll('$PWD', work).replaceAll('~/', `${home}/`);
        const [, command, rest] = / -- (\S+) (.*)$/.exec(expanded) ?? [];
        const [, header, token] = /"(\w+): (.*)"/.exec(line) ?? [];
        assert.deepEqual([entry.url, entry.command, entry.args?.join(' ')], [url, command, rest], line);
        assert.equal(entry.headers?.[header], token, line);
        reset();
    }
    step(`${lines.length} documented \`claude mcp add\` commands work`);
}

// --- steps -------------------------------------------------------------------------------------

function step(what) {
    console.log(`${((Date.now() - began) / 1000).toFixed(1).padStart(6)} s  ${what}`);
}

/** The environment of all commands. */
function surroundings() {
    // Without a terminal, Claude Code doesn't wait for slow servers by default.
    const patience = { MCP_CONNECTION_NONBLOCKING: 'false', MCP_CONNECT_TIMEOUT_MS: '60000' };
    return { ...environment(home), ...patience, HARBOUR_TOKEN: 'hbr-77', PATH: path.join(':') };
}

function workbench(...args) {
    const options = {
        cwd: home,
        env: surroundings(),
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'inherit'],
    };
    return execFileSync(join(home, '.local/bin/mcp-workbench'), args, options);
}

/** Runs a task in an agent and checks that the model received the servers' data. */
async function task(name, client, which, { isByWorkbench }) {
    const wanted = TASKS.find((task) => task.name === which);
    const first = endpoint.sent.length;
    const { args, env } = client.launch({ url: endpoint.url, prompt: prompt(wanted, world) });
    const from = Date.now();
    const { output } = await run(client, args, { ...surroundings(), ...env }, world);
    const seconds = ((Date.now() - from) / 1000).toFixed(1);
    const main = endpoint.sent.slice(first).filter((request) => !request.isSide);
    const said = main.at(-1)?.said.text ?? '';
    const answers = {
        one: 'Ilka Soren',
        two: /^40617, 1[67]:15$/,
        chain: `${head()}, two lamps`,
    };
    const told = said.replace(/^DONE: /, '');
    const isRight = answers[which].test?.(told) ?? told === answers[which];
    assert.ok(
        isRight && output.includes(said),
        `${name}: the model said \`${said}\`; output:\n${output}`,
    );
    const calls = main.flatMap((request) => request.said.calls.map((call) => call.name));
    assert.equal(
        calls.some((call) => call.includes('workbench')),
        isByWorkbench,
        `${name} called ${calls}`,
    );
    const bytes = main.reduce((sum, request) => sum + request.bytes, 0);
    const way = isByWorkbench ? 'through the workbench' : 'with its own servers';
    step(
        `${name} ${way}: ${told} (${main.length} requests, ${Math.round(bytes / 1000)} kB, ${seconds} s)`,
    );
}

function head() {
    return execFileSync('git', ['-C', work, 'rev-parse', 'HEAD'], { encoding: 'utf8' }).trim();
}

function programOf(client) {
    return join(env, 'agents/node_modules', client.program);
}

/** Adds a server with each agent's own command. */
function add() {
    for (const { client, add } of Object.values(AGENTS)) {
        const program = programOf(client);
        const [command, first] = program.endsWith('.js')
            ? [process.execPath, [program]]
            : [program, []];
        const { env: own } = client.launch({ url: endpoint.url, prompt: '' });
        const options = {
            cwd: work,
            env: { ...surroundings(), ...own },
            stdio: ['ignore', 'pipe', 'pipe'],
        };
        execFileSync(command, [...first, ...add, ...THINKING], options);
    }
}

/** Checks that clients start only the workbench, apart from exceptions, and that the configuration has no secrets. */
function checkSetUp() {
    const now = texts(home);
    const stay = {
        'Claude Code': ['orders'],
        Codex: ['browser'],
        opencode: ['sentry'],
        Cursor: ['filesystem'],
    };
    for (const name of Object.keys(FILES)) {
        const names = Object.keys(serversOf(name, now));
        assert.deepEqual(names.sort(), [...(stay[name] ?? []), 'workbench'].sort(), name);
    }
    const config = readFileSync(join(home, '.config/mcp-workbench/config.json'), 'utf8');
    const secrets = join(home, '.config/mcp-workbench/config.secrets.env');
    assert.doesNotMatch(config, /ctx7sk/);
    assert.match(readFileSync(secrets, 'utf8'), /=ctx7sk-5d1f0a83/);
    assert.equal(statSync(secrets).mode & 0o777, 0o600);
    const shown = workbench('setup', 'status');
    for (const name of Object.keys(FILES))
        assert.match(shown, new RegExp(`^${name} .* as .workbench.`, 'm'), shown);
}

function configured() {
    return JSON.parse(readFileSync(join(home, '.config/mcp-workbench/config.json'), 'utf8'));
}

/** Restores the clients' original files. */
function reset() {
    for (const [name, file] of Object.entries(FILES))
        writeFileSync(join(home, file.path), original[name]);
}

// --- files -------------------------------------------------------------------------------------

function texts(home) {
    const read = ([name, file]) => [name, readFileSync(join(home, file.path), 'utf8')];
    return Object.fromEntries(Object.entries(FILES).map(read));
}

function value(name, all) {
    return valueOf(FILES[name].path, all[name], python);
}

function serversOf(name, all) {
    return value(name, all)[SERVERS[name] ?? 'mcpServers'];
}

/** Starts a server over HTTP; returns its address. */
async function everything() {
    const port = await new Promise((done) => {
        const server = createServer().listen(0, '127.0.0.1', () => {
            const { port } = server.address();
            server.close(() => done(port));
        });
    });
    const program = join(env, 'agents/node_modules/.bin/mcp-server-everything');
    const options = {
        env: { ...process.env, PORT: String(port) },
        stdio: ['ignore', 'ignore', 'pipe'],
    };
    const child = spawn(program, ['streamableHttp'], options);
    children.push(child);
    await new Promise((done, failed) => {
        let said = '';
        child.on('exit', () => failed(new Error(`the HTTP server exited: ${said}`)));
        child.stderr.on('data', (data) => {
            said += data;
            if (said.includes('listening')) done();
        });
    });
    return `http://127.0.0.1:${port}/mcp`;
}
