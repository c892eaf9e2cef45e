// Compares two states of a home folder, and two values of a client's file.

import { execFileSync } from 'node:child_process';
import { lstatSync, readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';

/** Each file's mode and contents, or a symbolic link's target. */
export function snapshot(folder) {
    const found = new Map();
    const walk = (inner) => {
        for (const name of readdirSync(join(folder, inner))) {
            const path = join(inner, name);
            const whole = join(folder, path);
            const stat = lstatSync(whole);
            if (stat.isDirectory()) walk(path);
            else if (stat.isSymbolicLink()) found.set(path, `-> ${readlinkSync(whole)}`);
            else if (stat.isFile()) {
                const bytes = readFileSync(whole).toString('latin1');
                found.set(path, `${(stat.mode & 0o777).toString(8)} ${bytes}`);
            }
        }
    };
    walk('');
    return found;
}

/** The paths of files that differ, except in the folders in `without`. */
export function unlike(before, after, { without = [] } = {}) {
    const isMeant = (path) => !without.some((folder) => path.startsWith(folder));
    const paths = [...new Set([...before.keys(), ...after.keys()])].filter(isMeant);
    return paths.filter((path) => before.get(path) !== after.get(path)).sort();
}

/** Parses a client's file; the extension selects the format. */
export function valueOf(path, text, python) {
    if (!path.endsWith('.toml')) return JSON.parse(plain(text));
    const code = 'import json, sys, tomllib; print(json.dumps(tomllib.load(sys.stdin.buffer)))';
    return JSON.parse(execFileSync(python, ['-c', code], { input: text }).toString());
}

/** Removes comments and trailing commas from JSON. */
export function plain(text) {
    const token = /"(?:[^"\\]|\\.)*"|\/\/[^\n]*|\/\*[^]*?\*\//g;
    const bare = text.replace(token, (found) => (found[0] === '"' ? found : ''));
    return bare.replace(/"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])/g, (found) =>
        found === ',' ? '' : found,
    );
}

/** The changes that turn one value into the other: with `value`, set the path; without, remove it. */
export function changes(one, other, at = []) {
    const isTree = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
    if (!isTree(one) || !isTree(other)) {
        return JSON.stringify(one) === JSON.stringify(other) ? [] : [{ at, value: other }];
    }
    const names = [...new Set([...Object.keys(one), ...Object.keys(other)])];
    return names.flatMap((name) => {
        const path = [...at, name];
        if (!Object.hasOwn(other, name)) return [{ at: path }];
        return Object.hasOwn(one, name)
            ? changes(one[name], other[name], path)
            : [{ at: path, value: other[name] }];
    });
}

/** Applies the changes to a copy of a value. */
export function changed(value, all) {
    const result = structuredClone(value);
    for (const { at, ...rest } of all) {
        const last = at.at(-1);
        const above = at.slice(0, -1).reduce((inner, name) => (inner[name] ??= {}), result);
        if (Object.hasOwn(rest, 'value')) above[last] = rest.value;
        else delete above[last];
    }
    return result;
}

export function comments(path, text) {
    const strings = path.endsWith('.toml')
        ? `'[^'\\n]*'|"(?:[^"\\\\]|\\\\.)*"`
        : '"(?:[^"\\\\]|\\\\.)*"';
    const notes = path.endsWith('.toml') ? '#[^\\r\\n]*' : '\\/\\/[^\\r\\n]*|\\/\\*[^]*?\\*\\/';
    const found = text.match(new RegExp(`${strings}|${notes}`, 'g')) ?? [];
    return found.filter((token) => !/^["']/.test(token));
}
