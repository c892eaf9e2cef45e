// Runs the real executable over HTTP in a temporary folder, and an agent that calls it.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { EVIL } from './evil.mjs';

export const BINARY = resolve(process.env.MCP_WORKBENCH ?? 'target/debug/mcp-workbench');
const HOSTILE = resolve('tests/page/hostile.mjs');
const AUTHORITY = resolve('tests/signin/authority.mjs');

export const folder = mkdtempSync(join(tmpdir(), 'workbench-page-'));
const env = { ...process.env, HOME: folder, XDG_CACHE_HOME: join(folder, 'cache'), XDG_CONFIG_HOME: join(folder, 'config') };
mkdirSync(env.XDG_CACHE_HOME);
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

/** Creates a token; returns it with its configuration entry. */
export function token(...args) {
  const made = JSON.parse(execFileSync(BINARY, ['token', ...args, '--json'], { env, encoding: 'utf8' }));
  return [made.token, made.entry];
}

export function configuration(more, name = 'workbench-config.json') {
  const builtin = (name) => ({ command: BINARY, args: ['builtin', name] });
  const hostile = (...args) => ({ command: process.execPath, args: [HOSTILE, ...args] });
  const config = {
    toolMode: 'direct',
    toolboxes: {
      desk: { description: 'The time of day and short notes', mcpServers: { clock: builtin('clock'), notes: builtin('notes') } },
      odd: { description: EVIL, mcpServers: { hostile: hostile(), broken: hostile('fail') } },
    },
    dangerousTools: ['hostile:danger'],
    ...more,
  };
  const file = join(folder, name);
  writeFileSync(file, JSON.stringify(config, null, 2));
  return file;
}

/** Starts the executable and waits for a line of output that matches `wanted`. */
async function begin(args, wanted) {
  const child = spawn(BINARY, args, { env, cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  const said = [];
  const found = await new Promise((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        said.push(line);
        const match = wanted.exec(line);
        if (match) {
          resolve(match[0]);
        }
      });
    }
    child.on('exit', () => reject(new Error(`the process exited:\n${said.join('\n')}`)));
  });
  const end = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    }
  };
  return { found, pid: child.pid, end };
}

/** Starts an MCP server that requires sign-in, with its authorization server. */
export async function authority() {
  const child = spawn(process.execPath, [AUTHORITY, resolve('.test-env/signin')], { stdio: ['pipe', 'pipe', 'ignore'] });
  const [line] = await once(createInterface({ input: child.stdout }), 'line');
  return { ...JSON.parse(line), end: () => child.kill() };
}

export async function serve(file, port = 0) {
  const args = ['--config', relative(folder, file), 'serve', '--http', `127.0.0.1:${port}`, '--shutdown-timeout', '0s'];
  const { found, pid, end } = await begin(args, /http:\/\/127\.0\.0\.1:\d+/);
  return { address: found, pid, port: Number(new URL(found).port), end };
}

/** Runs `mcp-workbench dashboard`. */
export async function page() {
  const { found, end } = await begin(['dashboard'], /http:\/\/127\.0\.0\.1:\d+\/#token=\S+/);
  return { address: found, end };
}

/**
 * Connects an agent to one toolbox, or to all if `toolbox` is `null`. Returns a function that calls the tool
 * whose name ends with its argument.
 */
export async function agent(address, toolbox, bearer) {
  const url = toolbox === null ? `${address}/mcp` : `${address}/mcp/${toolbox}`;
  let session;
  const post = async (message) => {
    const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
    if (session) {
      headers['Mcp-Session-Id'] = session;
    }
    if (bearer) {
      headers.Authorization = `Bearer ${bearer}`;
    }
    const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', ...message }) });
    session ??= response.headers.get('mcp-session-id');
    const text = await response.text();
    if (!response.ok) {
      throw new Error(`${response.status}: ${text}`);
    }
    const last = text.split('\n').filter((line) => line.startsWith('data:') && line.length > 6).pop();
    return text === '' ? null : JSON.parse(last ? last.slice(5) : text);
  };
  const clientInfo = { name: 'test-client', version: '1' };
  await post({ id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo } });
  await post({ method: 'notifications/initialized' });
  const { tools } = (await post({ id: 2, method: 'tools/list' })).result;
  let id = 2;
  return async (tool, args = {}) => {
    const { name } = tools.find((known) => known.name.endsWith(tool));
    return (await post({ id: (id += 1), method: 'tools/call', params: { name, arguments: args } })).result;
  };
}
