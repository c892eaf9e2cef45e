// Runs one task in one client, with a fresh home and working directory.

import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { write } from './client/files.mjs';
import { start } from './endpoint.mjs';
import { configuration } from './servers.mjs';
import { prompt } from './tasks.mjs';

const PATIENCE_MS = 180_000;

/** Returns the outcome and the size of the model requests. */
export async function session({ client, mode, task, world }) {
    const home = join(world.run, 'home');
    for (const folder of [home, world.work]) rmSync(folder, { recursive: true, force: true });
    mkdirSync(home, { recursive: true });
    cpSync(world.template, world.work, { recursive: true });
    const endpoint = await start(world);
    try {
        const servers =
            mode === 'native' ? world.servers : { workbench: workbench(client, mode, world, home) };
        const asked = prompt(task, world);
        const { args, env } = client.plan({ home, url: endpoint.url, servers, prompt: asked });
        const began = Date.now();
        const { code, output } = await run(client, args, { ...environment(home), ...env }, world);
        const seconds = (Date.now() - began) / 1000;
        const main = endpoint.sent.filter((request) => !request.isSide);
        const last = main.at(-1)?.said.text ?? '';
        const result = {
            works: last.startsWith('DONE') && output.includes(last),
            requests: main.length,
            bytes: main.reduce((sum, request) => sum + request.bytes, 0),
            sideBytes: endpoint.sent
                .filter((request) => request.isSide)
                .reduce((sum, { bytes }) => sum + bytes, 0),
            seconds,
            code,
        };
        if (world.dump) dump({ client, mode, task, world, result, sent: endpoint.sent, output });
        return result;
    } finally {
        await endpoint.stop();
    }
}

/** The client's server entry for the workbench. */
function workbench(client, mode, world, home) {
    const isCold = mode.endsWith(' (cold)');
    const toolMode = mode.replace(' (cold)', '');
    const settings = { ...configuration(world.servers, toolMode), ...client.settings };
    const file = write(join(home, 'workbench.json'), settings);
    const cache = isCold ? join(home, 'cache') : world.cache;
    return {
        command: world.binary,
        args: ['--config', file, '--log-file', join(home, 'workbench.log')],
        env: { XDG_CACHE_HOME: cache },
        ...client.entry,
    };
}

/** An environment without the user's settings and keys. */
export function environment(home) {
    const { PATH, LANG = 'C.UTF-8', TZ = 'UTC' } = process.env;
    return { PATH, LANG, TZ, HOME: home, USER: 'agent', TERM: 'dumb', NO_COLOR: '1', CI: '' };
}

/** The installed version of a client, from its npm package. */
export function version({ program }, env) {
    const parts = program.split('/');
    const name = parts.slice(0, program.startsWith('@') ? 2 : 1);
    const file = join(env, 'agents/node_modules', ...name, 'package.json');
    return JSON.parse(readFileSync(file, 'utf8')).version.replace('-linux-x64', '');
}

/** Runs the client in the servers' working directory; returns its exit status and output. */
export function run(client, args, env, world) {
    return new Promise((done, failed) => {
        const path = join(world.env, 'agents/node_modules', client.program);
        const [command, first] = path.endsWith('.js') ? [process.execPath, [path]] : [path, []];
        // Its own process group, so that its child processes can be killed with it.
        const options = { cwd: world.work, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] };
        const child = spawn(command, [...first, ...args], options);
        let output = '';
        for (const stream of [child.stdout, child.stderr])
            stream.on('data', (data) => (output += data));
        const end = () => {
            try {
                process.kill(-child.pid, 'SIGKILL');
            } catch {
                // The process group has already exited.
            }
        };
        const timer = setTimeout(end, PATIENCE_MS);
        // Kill the processes before another handler removes their working directory.
        process.prependListener('exit', end);
        child.on('error', failed);
        child.on('exit', (code) => {
            clearTimeout(timer);
            setTimeout(() => {
                end();
                process.off('exit', end);
                done({ code, output });
            }, 200);
        });
    });
}

function dump({ client, mode, task, world, result, sent, output }) {
    const to = join(world.dump, `${client.key}-${mode}-${task.name}`.replace(/[ ()]+/g, '_'));
    rmSync(to, { recursive: true, force: true });
    mkdirSync(to, { recursive: true });
    writeFileSync(join(to, 'result.json'), JSON.stringify(result, null, 2));
    writeFileSync(join(to, 'output.txt'), output);
    sent.forEach(({ body, said, isSide, path, bytes }, index) => {
        const name = `${String(index + 1).padStart(2, '0')}${isSide ? '-side' : ''}.json`;
        writeFileSync(join(to, name), JSON.stringify({ path, bytes, said, body }, null, 1));
    });
    const log = join(world.run, 'home/workbench.log');
    try {
        cpSync(log, join(to, 'workbench.log'));
    } catch {
        // The file doesn't exist if the client ran without the workbench.
    }
}
