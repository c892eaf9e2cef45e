// `just signin`: measures the commands and the time from a server that requires sign-in to its first call through
// the workbench. The scripted browser consents immediately.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

const root = resolve(import.meta.dirname, '../..');
const binary = resolve(process.argv[2] ?? join(root, 'target/debug/mcp-workbench'));
const home = mkdtempSync(join(tmpdir(), 'mcp-workbench-signin-'));
const authority = spawn(process.execPath, [join(root, 'tests/signin/authority.mjs'), join(root, '.test-env/signin')], {
    stdio: ['pipe', 'pipe', 'ignore'],
});
process.on('exit', () => {
    authority.kill();
    rmSync(home, { recursive: true, force: true });
});
const [line] = await once(createInterface({ input: authority.stdout }), 'line');
const { mcp, control } = JSON.parse(line);

writeFileSync(join(home, '.claude.json'), JSON.stringify({ mcpServers: { hub: { type: 'http', url: mcp } } }, null, 2));
const options = { cwd: home, env: { HOME: home, PATH: process.env.PATH, BROWSER: 'none' }, encoding: 'utf8' };
const began = Date.now();
let typed = 0;

/** Runs and times a command that a user types. */
async function type(args, work) {
    const from = Date.now();
    const said = await work(args);
    typed += 1;
    console.log(`${((Date.now() - from) / 1000).toFixed(2).padStart(6)} s  mcp-workbench ${args.join(' ')}`);
    return said;
}

const run = (args) => execFileSync(binary, args, { ...options, stdio: ['ignore', 'pipe', 'ignore'] });

/** Runs the command and opens the address that it prints. */
async function login(args) {
    const child = spawn(binary, args, { ...options, stdio: ['ignore', 'pipe', 'inherit'] });
    const said = [];
    for await (const line of createInterface({ input: child.stdout })) {
        said.push(line);
        const [address] = /https?:\S+/.exec(line) ?? [];
        if (address) await fetch(`${control}/browse?url=${encodeURIComponent(address)}`);
    }
    return said.join('\n');
}

const added = await type(['add', '--user', 'hub', mcp], run);
assert.match(added, /auth login hub/, added);
assert.match(await type(['auth', 'login', 'hub'], login), /signed in to hub/);
const set = await type(['setup', '--yes'], run);
assert.match(set, /hub/, set);
assert.equal(JSON.parse(readFileSync(join(home, '.claude.json'), 'utf8')).mcpServers.hub, undefined);
const config = JSON.parse(readFileSync(join(home, '.config/mcp-workbench/config.json'), 'utf8'));
const [toolbox] = Object.entries(config.toolboxes).find(([, { mcpServers }]) => mcpServers.hub);
assert.match(await type(['call', toolbox, 'hub', 'read'], run), /read by ann/);
console.log(`${((Date.now() - began) / 1000).toFixed(2).padStart(6)} s  total, ${typed} commands`);

const kept = join(home, '.local/state/mcp-workbench/credentials');
for (const name of readdirSync(kept)) assert.equal(statSync(join(kept, name)).mode & 0o777, 0o600, name);
process.exit(0);
