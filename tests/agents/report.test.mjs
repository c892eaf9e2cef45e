// Tests of the report; run with `node --test`.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { PAGES, between, brief, title, whole, withTables } from './report.mjs';

const row = (client, mode, task, works, bytes) => {
    const measured = { works, requests: 2, bytes, seconds: 1.25 };
    return { client, version: '1.20.0', model: 'm', mode, task, ...measured };
};
const rows = [
    row('A', 'native', 'one', true, 9000),
    row('A', 'native', 'two', true, 1_000_000),
    row('B', 'auto (cold)', 'one', true, 4500),
    row('B', 'auto (cold)', 'two', false, 4500),
    row('B', 'proxy', 'one', true, 4500),
];

test('the full table sums up tasks and marks failures', () => {
    const lines = whole(rows).split('\n').slice(2);
    assert.deepEqual(lines, [
        '| A 1.20, m | without the workbench | yes | 4 | 1,009,000 | 224,222 | 2.5 |',
        '| B 1.20, m | `auto` (cold) | 1 of 2 | 4 | 9,000 | 2,000 | 2.5 |',
        '| B 1.20, m | `proxy` | yes | 2 | 4,500 | 1,000 | 1.3 |',
    ]);
});

test('the short table compares each client with and without the workbench', () => {
    const measured = [
        row('A', 'native', 'one', true, 100_000),
        row('A', 'auto', 'one', true, 60_000),
        row('A', 'auto (cold)', 'one', true, 126_000),
        row('A', 'proxy', 'one', true, 1),
        row('B', 'native', 'one', true, 100_000),
        row('B', 'auto', 'one', false, 4500),
    ];
    const lines = brief(measured).split('\n').slice(2);
    assert.deepEqual(lines, [
        '| A 1.20, m | 100 kB | 60 kB | −40% | +26% | 2 → 2 |',
        '| B 1.20, m | 100 kB | fails | – | – | 2 → – |',
    ]);
});

test('a title names version and model', () => {
    const named = (version) => title({ client: 'A', version, model: 'm (code mode)' });
    assert.equal(named('0.171.0'), 'A 0.171, m (code mode)');
    assert.equal(named('2.1.332'), 'A 2.1.332, m (code mode)');
    assert.equal(named('1.0.10'), 'A 1.0.10, m (code mode)');
});

test('a table replaces only the text between its markers', () => {
    const text = 'a\n<!-- x -->\nold\n<!-- end of x -->\nb';
    const put = between(text, 'new', 'x');
    assert.equal(put, 'a\n<!-- x -->\n\nnew\n\n<!-- end of x -->\nb');
    assert.equal(between(put, 'new', 'x'), put);
    assert.throws(() => between('a', 'new', 'x'), /missing/);
    assert.throws(() => withTables('<!-- agents in full -->', rows), /missing/);
});

test('README and docs show the latest results', () => {
    const here = import.meta.dirname;
    if (!existsSync(join(here, 'results.json'))) return;
    const measured = JSON.parse(readFileSync(join(here, 'results.json'), 'utf8'));
    for (const page of PAGES) {
        const text = readFileSync(join(here, '../..', page), 'utf8');
        assert.match(text, /<!-- agents in brief -->/);
        assert.ok(withTables(text, measured) === text, `${page} has outdated results; run just agents --write`);
    }
});
