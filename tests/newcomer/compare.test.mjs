import assert from 'node:assert/strict';
import { test } from 'node:test';

import { changed, changes, comments, plain, unlike } from './compare.mjs';

test('files that differ, come and go are told', () => {
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

test('JSON with comments is read, and what looks like one in a text is left', () => {
    const text = '{ /* a\n, */ "u": "http://x,}", // it\n "l": [1, 2,], }';
    assert.deepEqual(JSON.parse(plain(text)), { u: 'http://x,}', l: [1, 2] });
    assert.deepEqual(comments('x.jsonc', text), ['/* a\n, */', '// it']);
    assert.deepEqual(comments('x.toml', 'a = "#1" # 2\n# 3\r\nb = \'#4\'\n'), ['# 2', '# 3']);
});

test('changes are found, and can be made elsewhere', () => {
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
