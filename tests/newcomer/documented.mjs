// Command lines that the documentation shows.

import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Each line of a block of shell commands that begins with these words, once. */
export function shown(root, words) {
    const docs = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md'));
    const pages = ['README.md', ...docs.map((name) => join('docs', name))];
    const found = pages.flatMap((page) => {
        const text = readFileSync(join(root, page), 'utf8');
        return [...text.matchAll(/^```sh\n([^]*?)^```/gm)]
            .flatMap(([, block]) => block.replaceAll('\\\n', ' ').split('\n'))
            .map((line) => line.replace(/\s+/g, ' ').trim())
            .filter((line) => line.startsWith(words));
    });
    return [...new Set(found)];
}
