// The tasks, and the steps in which a sensible model does each.
//
// A step is one call of one tool. Of it the model knows what a reader of the task and of the tool's
// description would: which tool is the right one when it sees it, what to look for while it does not
// (`words` that a fitting toolbox has, a `query` for a search), and the arguments by the names that
// the tool's schema has, of which one is undefined while it waits for an earlier answer. It is done
// when an answer has what `done` matches.

export const TASKS = [
    {
        name: 'one',
        about: 'one tool of one server',
        prompt: 'Who is the pilot of the harbour of Vell? Our knowledge graph knows it.',
        steps: [
            {
                tool: 'search_nodes',
                args: () => ({ query: 'Vell' }),
                query: 'search the knowledge graph for nodes',
                words: ['knowledge graph', 'memory', 'remember', 'mind'],
                done: /its pilot is (Ilka Soren)/,
            },
        ],
    },
    {
        name: 'two',
        about: 'two tools of two servers',
        prompt:
            'How many anchors are in the table `stock` of our SQLite database, and what time is it in Tokyo ' +
            'when it is 09:15 in Berlin?',
        steps: [
            {
                tool: 'read_query',
                args: () => ({ query: "SELECT pieces FROM stock WHERE item = 'anchors'" }),
                query: 'sqlite run a select query on the database',
                words: ['sqlite', 'database', 'query', 'data'],
                done: /(40617)/,
            },
            {
                tool: 'convert_time',
                args: () => ({
                    source_timezone: 'Europe/Berlin',
                    time: '09:15',
                    target_timezone: 'Asia/Tokyo',
                }),
                query: 'convert time between time zones',
                words: ['time zone', 'zones', 'time', 'misc'],
                done: /Asia\/Tokyo[^]*T(1[67]:15)/,
            },
        ],
    },
    {
        name: 'chain',
        about: 'a tool with arguments from an earlier answer',
        prompt:
            'Which signal did the newest commit of the git repository in WORK agree on? Look at the log, then at ' +
            'what that commit changed.',
        steps: [
            {
                tool: 'git_log',
                args: (_, { work }) => ({ repo_path: work }),
                query: 'git show the log of commits',
                words: ['git', 'commit', 'history', 'code'],
                done: /[Cc]ommit: ?'?([0-9a-f]{40})/,
            },
            {
                tool: 'git_show',
                args: ([hash], { work }) => ({ repo_path: work, revision: hash }),
                query: 'git show a commit',
                words: ['git', 'commit', 'history', 'code'],
                done: /\+(two lamps)/,
            },
        ],
    },
];

/** The prompt as a client is given it. */
export function prompt(task, { work }) {
    return `${task.prompt.replace('WORK', work)} Use the tools of MCP servers for it, not the shell.`;
}

/** The task that a prompt is of. */
export function taskOf(texts) {
    const all = texts.join('\n');
    return TASKS.find((task) => all.includes(task.prompt.split('WORK')[0]));
}
