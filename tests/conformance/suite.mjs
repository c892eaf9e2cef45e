// Runs the installed conformance suite and reads its scenarios and results.

import { spawn } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const PATIENCE = 180_000;

/** The repository root; commands run here. */
export const ROOT = join(import.meta.dirname, '../..');
const INSTALLED = join(ROOT, '.test-env/conformance/node_modules');

/** The pinned Node if this platform has one, or else the current Node. */
function node() {
    const pinned = join(INSTALLED, `node-${process.platform}-${process.arch}/bin/node`);
    if (existsSync(pinned)) {
        return pinned;
    }
    if (Number(process.versions.node.split('.')[0]) < 22) {
        throw new Error('the conformance suite requires Node >= 22');
    }
    return process.execPath;
}

export class Suite {
    constructor(line) {
        this.folder = join(INSTALLED, `conformance-${line}`);
        const about = JSON.parse(readFileSync(join(this.folder, 'package.json'), 'utf8'));
        this.version = about.version;
    }

    run(args) {
        const preload = JSON.stringify(join(import.meta.dirname, 'loopback.cjs'));
        const child = spawn(node(), [join(this.folder, 'dist/index.js'), ...args], {
            cwd: ROOT,
            env: { ...process.env, NODE_OPTIONS: `--require ${preload}` },
            stdio: ['ignore', 'pipe', 'pipe'],
        });
        const timer = setTimeout(() => child.kill('SIGKILL'), PATIENCE);
        let output = '';
        for (const stream of [child.stdout, child.stderr]) {
            stream.setEncoding('utf8').on('data', (text) => (output += text));
        }
        return new Promise((resolve, reject) => {
            child.on('error', reject);
            child.on('close', (code) => {
                clearTimeout(timer);
                resolve({ code, output });
            });
        });
    }

    /** The scenarios of a role, with their names and tags: revisions, or `extension`. */
    async scenarios(role) {
        const { output } = await this.run(['list', `--${role}`]);
        const lines = [...output.matchAll(/^ {2}- (\S+) \[(.*)\]$/gm)];
        return lines.map(([, name, tags]) => ({ name, tags: tags.split(',') }));
    }

    /** The names of a revision's required scenarios, if this version of the suite lists them. */
    async required(revision, role) {
        if (!existsSync(join(this.folder, `requirements/${revision}.yaml`))) {
            return undefined;
        }
        const { output } = await this.run(['list', '--requirements', revision]);
        const heading = role === 'server' ? 'Server scenarios' : 'Client scenarios';
        const section = output.split('\n\n').find((part) => part.includes(heading)) ?? '';
        return new Set([...section.matchAll(/^ {2}- (\S+)$/gm)].map(([, name]) => name));
    }
}

/** Reads the checks of a scenario from a results folder, if it wrote any. */
export function checksOf(folder, role, scenario) {
    const prefix = role === 'server' ? `server-${scenario}-` : `${scenario}-`;
    // Some versions keep the slash in a scenario name, so its first part becomes a folder.
    const nested = prefix.lastIndexOf('/');
    const places = [[folder, prefix.replaceAll('/', '-')], [join(folder, prefix.slice(0, nested + 1)), prefix.slice(nested + 1)]];
    for (const [place, start] of places) {
        const names = existsSync(place) ? readdirSync(place) : [];
        const found = names.find((name) => name.startsWith(start) && /^\d{4}-/.test(name.slice(start.length)));
        const file = found && join(place, found, 'checks.json');
        if (file && existsSync(file)) {
            return JSON.parse(readFileSync(file, 'utf8'));
        }
    }
    return undefined;
}
