// The servers, their toolboxes, and their working directory.

import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The toolboxes' descriptions and servers, by name. */
export const TOOLBOXES = {
    code: {
        description: 'Read, search and change files; history, differences and commits of git',
        servers: ['filesystem', 'git'],
    },
    web: {
        description: 'Drive a browser, fetch web pages, look up documentation of libraries',
        servers: ['playwright', 'fetch', 'context7'],
    },
    mind: {
        description: 'The knowledge graph: people, places and facts to remember; thinking in steps',
        servers: ['memory', 'thinking'],
    },
    data: {
        description: 'Query and change the SQLite database; the orders of the chandlery',
        servers: ['sqlite', 'orders'],
    },
    misc: {
        description:
            'The time in any time zone and conversion between zones; tools for trying things out',
        servers: ['time', 'everything'],
    },
};

/** The command, arguments and environment of each server. */
export function servers(env, work) {
    const node = (bin) => join(env, 'agents/node_modules/.bin', bin);
    const python = (bin) => join(env, 'agents-python/bin', bin);
    return {
        filesystem: { command: node('mcp-server-filesystem'), args: [work] },
        git: { command: python('mcp-server-git'), args: ['--repository', work] },
        playwright: { command: node('playwright-mcp'), args: ['--headless', '--isolated'] },
        fetch: { command: python('mcp-server-fetch'), args: [] },
        context7: { command: node('context7-mcp'), args: [] },
        memory: {
            command: node('mcp-server-memory'),
            args: [],
            env: { MEMORY_FILE_PATH: join(work, 'memory.jsonl') },
        },
        thinking: { command: node('mcp-server-sequential-thinking'), args: [] },
        sqlite: {
            command: join(env, 'agents-python-v1/bin/mcp-server-sqlite'),
            args: ['--db-path', join(work, 'stock.db')],
        },
        orders: { command: process.execPath, args: [join(import.meta.dirname, 'orders.mjs')] },
        time: { command: python('mcp-server-time'), args: ['--local-timezone', 'UTC'] },
        everything: { command: node('mcp-server-everything'), args: ['stdio'] },
    };
}

/** The workbench's configuration for these servers. */
export function configuration(all, toolMode) {
    const toolboxes = Object.entries(TOOLBOXES).map(([name, { description, servers }]) => {
        const mcpServers = Object.fromEntries(servers.map((server) => [server, all[server]]));
        return [name, { description, mcpServers }];
    });
    return { toolMode, toolboxes: Object.fromEntries(toolboxes) };
}

/** Fills the working directory reproducibly; even the commit hash is the same each time. */
export function prepare(work, python) {
    mkdirSync(work, { recursive: true });
    const facts = [
        {
            type: 'entity',
            name: 'Harbour of Vell',
            entityType: 'place',
            observations: ['its pilot is Ilka Soren', 'the tide table is kept at berth 7'],
        },
        { type: 'entity', name: 'Mill', entityType: 'place', observations: ['closed since May'] },
    ];
    const lines = facts.map((fact) => JSON.stringify(fact)).join('\n');
    writeFileSync(join(work, 'memory.jsonl'), lines);
    const table = [
        'import sqlite3, sys',
        'db = sqlite3.connect(sys.argv[1])',
        "db.execute('create table stock (item text, pieces integer)')",
        "db.executemany('insert into stock values (?, ?)', [('anchors', 40617), ('ropes', 12)])",
        "db.execute('create table berths (berth integer, ledger text)')",
        "db.executemany('insert into berths values (?, ?)', [(6, 'ledger-a2.txt'), (7, 'ledger-k4.txt')])",
        'db.commit()',
    ];
    execFileSync(python, ['-c', table.join('\n'), join(work, 'stock.db')]);
    writeFileSync(join(work, 'signal.txt'), 'two lamps\n');
    writeFileSync(join(work, 'ledger-k4.txt'), 'High water at 04:37\n');
    const when = '2026-01-02T03:04:05Z';
    const who = ['AUTHOR', 'COMMITTER'].flatMap((role) => [
        [`GIT_${role}_NAME`, 'Ada'],
        [`GIT_${role}_EMAIL`, 'ada@example.com'],
        [`GIT_${role}_DATE`, when],
    ]);
    const quiet = { GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_SYSTEM: '/dev/null' };
    const env = { ...process.env, ...quiet, ...Object.fromEntries(who) };
    const git = (...args) => execFileSync('git', ['-C', work, ...args], { env });
    git('init', '--quiet', '--initial-branch=main');
    git('add', 'signal.txt');
    git('commit', '--quiet', '--message=Agree on the night signal');
}
