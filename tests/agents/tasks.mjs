// The tasks, and the steps in which a capable model completes them.
//
// A step is one tool call. The model knows as much about it as a reader of the task and of the tool's
// description would: the right tool, once it sees it; how to look for it (`words` that match a toolbox, a
// `query` for a search); and the arguments by name. An undefined argument depends on an earlier result. A step
// is complete when a result matches `done`. `field` is the JSON pointer of the part that is needed of a large result.

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
        about: 'a tool with arguments from an earlier result',
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
    {
        name: 'tour',
        about: 'three tools of three toolboxes, one after the other',
        prompt:
            'When is high water today? Our knowledge graph knows at which berth the tide table of the harbour of Vell ' +
            'is kept. The table `berths` of our SQLite database names the ledger of that berth, a file in WORK.',
        steps: [
            {
                tool: 'search_nodes',
                args: () => ({ query: 'tide table' }),
                query: 'search the knowledge graph for nodes',
                words: ['knowledge graph', 'memory', 'remember', 'mind'],
                done: /tide table is kept at berth (\d+)/,
            },
            {
                tool: 'read_query',
                args: ([berth]) => ({
                    query: berth && `SELECT ledger FROM berths WHERE berth = ${berth}`,
                }),
                query: 'sqlite run a select query on the database',
                words: ['sqlite', 'database', 'query', 'data'],
                done: /(ledger-k4\.txt)/,
            },
            {
                tool: 'read_text_file',
                args: ([, ledger], { work }) => ({ path: ledger && `${work}/${ledger}` }),
                query: 'read a text file',
                words: ['file', 'files', 'read', 'code'],
                done: /High water at (04:37)/,
            },
        ],
    },
    {
        name: 'record',
        about: 'one field of each of two 40 kB records',
        prompt: 'Who approved the order that order A-7301 of the chandlery replaces?',
        steps: [
            {
                tool: 'get_order',
                args: () => ({ order_id: 'A-7301' }),
                field: '/replaces',
                query: 'get an order of the chandlery',
                words: ['orders', 'order', 'chandlery', 'data'],
                done: /(A-5512)/,
            },
            {
                tool: 'get_order',
                args: ([id]) => ({ order_id: id }),
                field: '/approval/approvedBy',
                query: 'get an order of the chandlery',
                words: ['orders', 'order', 'chandlery', 'data'],
                done: /(Mira Tolland)/,
            },
        ],
    },
];

/** The prompt for the client. */
export function prompt(task, { work }) {
    return `${task.prompt.replace('WORK', work)} Use the tools of MCP servers for it, not the shell.`;
}

/** The task to which a prompt belongs. */
export function taskOf(texts) {
    const all = texts.join('\n');
    return TASKS.find((task) => all.includes(task.prompt.split('WORK')[0]));
}
