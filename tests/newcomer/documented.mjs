// Finds command lines in the docs.

import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** The distinct lines in shell code blocks that start with these words. */
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
