// Tests of the report with made-up checks; run with `node --test`.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { differences, readExpected, sumUp, table } from './report.mjs';

function read(text, role = 'server') {
    const folder = mkdtempSync(join(tmpdir(), 'report-'));
    const path = join(folder, 'expected.yml');
    writeFileSync(path, text);
    try {
        return [...readExpected(path, role)];
    } finally {
        rmSync(folder, { recursive: true });
    }
}

const check = (id, status) => ({ id, status, description: `about ${id}`, timestamp: 'now' });
const good = sumUp('good', true, [check('a', 'SUCCESS'), check('b', 'INFO')]);
const bad = sumUp('bad', false, [check('a', 'SUCCESS'), check('x', 'FAILURE'), check('y', 'WARNING')]);
const idle = sumUp('idle', true, [check('a', 'SKIPPED')]);

test('every expected failure has a reason', () => {
    const text = '# About the list.\n\nserver:\n  # Too hard:\n  # by far.\n  - a\n  - b:c # no room\n';
    assert.deepEqual(read(text), [
        ['a', 'Too hard: by far.'],
        ['b:c', 'no room'],
    ]);
    assert.deepEqual(read('server: []\n'), []);
    assert.deepEqual(readExpected('/nowhere.yml', 'server').size, 0);
    assert.throws(() => read('server:\n  - a\n'), /:2: missing reason/);
    assert.throws(() => read('# Why.\n- a\n'), /:2: unexpected line/);
    assert.throws(() => read('client:\n  # Why.\n  - a\n'), /:3: unexpected line/);
});

test('reports unexpected failures and unexpected passes', () => {
    const rows = [good, bad, idle];
    const faults = (...keys) => differences(rows, new Map(keys.map((key) => [key, 'because'])));
    assert.deepEqual(faults('bad'), []);
    assert.deepEqual(faults('bad:x', 'bad:y'), []);
    assert.deepEqual(faults('bad:x'), ['bad failed:\n    y: about y']);
    assert.deepEqual(faults(), ['bad failed:\n    x: about x\n    y: about y']);
    const stale = (key) => `${key} passed unexpectedly; remove it from the expected failures`;
    assert.deepEqual(faults('bad', 'good', 'bad:z'), ['good', 'bad:z'].map(stale));
});

test('the table has results but no times', () => {
    const text = table('Title', 'command', [good, bad, idle], new Map([['bad:x', 'too hard']]));
    assert.match(text, /^# Title\n/);
    assert.match(text, /\n3 scenarios: 1 passed, 1 failed, 1 skipped\. 2 required: 1 passed, 1 skipped\.\n/);
    assert.match(text, /\| bad \| no \| 1 \| 1 \| 1 \| 0 \| failed \|/);
    assert.match(text, /\| bad \| x \| too hard \|\n\| bad \| y \| unexpected \|\n$/);
    assert.doesNotMatch(text, /now/);
});
