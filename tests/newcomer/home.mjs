// Creates the newcomer's home: the configuration files of five clients, and the programs that they start.

import {
    chmodSync,
    copyFileSync,
    mkdirSync,
    readFileSync,
    symlinkSync,
    writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';

/** Each client's file: its path, its template, and its oddities, such as Windows line endings. */
export const FILES = {
    'Claude Code': { path: '.claude.json', from: 'claude.json', isEndless: true, mode: 0o600 },
    Codex: { path: '.codex/config.toml', from: 'codex.toml', mode: 0o600 },
    'Gemini CLI': { path: '.gemini/settings.json', from: 'gemini.json', isEndless: true },
    opencode: { path: '.config/opencode/opencode.jsonc', from: 'opencode.jsonc' },
    Cursor: { path: '.cursor/mcp.json', from: 'cursor.json', isOfWindows: true },
};

/** Creates the home. `known` holds the values for `{{name}}` in the templates. */
export function make(home, { binary, modules, known }) {
    for (const { path, from, isEndless, isOfWindows, mode = 0o644 } of Object.values(FILES)) {
        let text = readFileSync(join(import.meta.dirname, 'files', from), 'utf8');
        text = text.replace(/\{\{(\w+)\}\}/g, (_, name) => known[name]);
        if (isEndless) text = text.replace(/\n$/, '');
        if (isOfWindows) text = text.replaceAll('\n', '\r\n');
        put(join(home, path), text, mode);
    }
    const program = join(home, '.local/bin/mcp-workbench');
    mkdirSync(dirname(program), { recursive: true });
    copyFileSync(binary, program);
    // `npx` finds the installed packages and downloads nothing.
    symlinkSync(modules, join(home, 'node_modules'));
    put(join(home, '.npmrc'), 'offline=true\nupdate-notifier=false\nlogs-max=0\n');
}

function put(path, text, mode = 0o644) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    chmodSync(path, mode);
}
