// Reports a run: its table, and the differences from the expected failures.

import { existsSync, readFileSync } from 'node:fs';

/**
 * Parses a list of expected failures in the YAML subset that the suite uses. Every entry needs a reason, in a
 * comment above it or at the end of its line.
 */
export function readExpected(path, role) {
    const entries = new Map();
    if (!existsSync(path)) {
        return entries;
    }
    let isOurs = false;
    let reason = '';
    for (const [index, line] of readFileSync(path, 'utf8').split('\n').entries()) {
        const fault = (what) => new Error(`${path}:${index + 1}: ${what}`);
        const comment = /^\s*#\s*(.*)$/.exec(line);
        const heading = /^(\w+):\s*(\[\])?$/.exec(line);
        const entry = /^\s+- (\S+)(?:\s+#\s*(.*))?$/.exec(line);
        if (comment) {
            reason = reason ? `${reason} ${comment[1]}` : comment[1];
        } else if (line.trim() === '') {
            reason = '';
        } else if (heading) {
            isOurs = heading[1] === role;
            reason = '';
        } else if (entry && isOurs) {
            const why = entry[2] ?? reason;
            if (!why) {
                throw fault('there is no reason');
            }
            entries.set(entry[1], why);
            reason = '';
        } else {
            throw fault('not understood');
        }
    }
    return entries;
}

const count = (checks, status) => checks.filter((check) => check.status === status).length;

/** Summarizes the checks of a scenario. Warnings count as failures. */
export function sumUp(name, isRequired, checks) {
    const bad = checks.filter(({ status }) => status === 'FAILURE' || status === 'WARNING');
    return {
        name,
        isRequired,
        passed: count(checks, 'SUCCESS'),
        failed: count(checks, 'FAILURE'),
        warnings: count(checks, 'WARNING'),
        skipped: count(checks, 'SKIPPED'),
        failing: [...new Set(bad.map(({ id }) => id))].sort(),
        messages: bad.map((check) => ({ id: check.id, text: check.errorMessage ?? check.description })),
    };
}

/** Unexpected failures, and expected failures that pass. */
export function differences(rows, expected) {
    const used = new Set();
    const faults = [];
    for (const row of rows) {
        const unexpected = row.failing.filter((check) => {
            const keys = [row.name, `${row.name}:${check}`].filter((key) => expected.has(key));
            keys.forEach((key) => used.add(key));
            return keys.length === 0;
        });
        if (unexpected.length > 0) {
            const why = row.messages.filter(({ id }) => unexpected.includes(id));
            const lines = why.map(({ id, text }) => `\n    ${id}: ${text}`);
            faults.push(`${row.name} fails:${lines.join('')}`);
        }
    }
    const stale = [...expected.keys()].filter((key) => !used.has(key));
    return [...faults, ...stale.map((key) => `${key} is expected to fail and does not`)];
}

function verdict(row) {
    if (row.failing.length > 0) {
        return 'fails';
    }
    return row.passed > 0 ? 'passes' : 'is skipped';
}

/** Counts scenarios by verdict. */
export function balance(rows, what = 'scenarios') {
    const parts = ['passes', 'fails', 'is skipped'].map((word) => {
        const some = rows.filter((row) => verdict(row) === word).length;
        const plural = { passes: 'pass', fails: 'fail', 'is skipped': 'are skipped' }[word];
        return some > 0 && `${some} ${some === 1 ? word : plural}`;
    });
    return `${rows.length} ${what} ${parts.filter(Boolean).join(', ') || 'none'}`;
}

/** The table of a run, without values that change between runs. */
export function table(title, command, rows, expected) {
    const required = rows.filter(({ isRequired }) => isRequired);
    const knows = required.length > 0;
    const lines = [
        `# ${title}`,
        '',
        `Written by \`scripts/conformance.sh\`, which runs \`${command}\`. A warning counts as a failure.`,
        '',
        `Of ${balance(rows)}${knows ? `; of the ${balance(required, 'required ones')}` : ''}.`,
        '',
        `| scenario |${knows ? ' required |' : ''} passed | failed | warnings | skipped | |`,
        `| --- |${knows ? ' --- |' : ''} ---: | ---: | ---: | ---: | --- |`,
    ];
    for (const row of rows) {
        const need = knows ? ` ${row.isRequired ? 'yes' : 'no'} |` : '';
        const counts = [row.passed, row.failed, row.warnings, row.skipped].join(' | ');
        lines.push(`| ${row.name} |${need} ${counts} | ${verdict(row)} |`);
    }
    const failing = rows.filter((row) => verdict(row) === 'fails');
    if (failing.length > 0) {
        lines.push('', '| fails | check | because |', '| --- | --- | --- |');
        for (const row of failing) {
            for (const check of row.failing) {
                const why = expected.get(`${row.name}:${check}`) ?? expected.get(row.name) ?? 'not expected';
                lines.push(`| ${row.name} | ${check} | ${why} |`);
            }
        }
    }
    return `${lines.join('\n')}\n`;
}
