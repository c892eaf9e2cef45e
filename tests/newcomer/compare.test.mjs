import assert from 'node:assert/strict';
import { test } from 'node:test';

import { changed, changes, comments, plain, unlike } from './compare.mjs';

test('reports changed, added and removed files', () => {
    const before = new Map([
        ['a', '1'],
        ['b', '1'],
        ['.cache/x', '1'],
    ]);
    const after = new Map([
        ['a', '1'],
        ['b', '2'],
        ['c', '1'],
    ]);
    assert.deepEqual(unlike(before, after), ['.cache/x', 'b', 'c']);
    assert.deepEqual(unlike(before, after, { without: ['.cache/'] }), ['b', 'c']);
});

test('reads JSON with comments and keeps comment-like strings', () => {
    const text = '{ /* a\n, */ "u": "http://x,}", // it\n "l": [1, 2,], }';
    assert.deepEqual(JSON.parse(plain(text)), { u: 'http://x,}', l: [1, 2] });
    assert.deepEqual(comments('x.jsonc', text), ['/* a\n, */', '// it']);
    assert.deepEqual(comments('x.toml', 'a = "#1" # 2\n# 3\r\nb = \'#4\'\n'), ['# 2', '# 3']);
});

test('finds changes and applies them to another value', () => {
    const one = { a: 1, b: { c: [1], d: 2 }, e: null };
    const other = { a: 1, b: { c: [2], f: undefined ?? 3 }, g: {} };
    const all = changes(one, other);
    assert.deepEqual(
        all.map(({ at }) => at.join('.')),
        ['b.c', 'b.d', 'b.f', 'e', 'g'],
    );
    assert.deepEqual(changed(one, all), other);
    assert.deepEqual(changed({ h: 1 }, [{ at: ['a', 'b'], value: 2 }]), { h: 1, a: { b: 2 } });
    assert.deepEqual(changes(one, structuredClone(one)), []);
});
