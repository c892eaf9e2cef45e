//! The rules for remarks, one row of a table each.

#[derive(Debug, PartialEq, Eq)]
pub struct RemarkRule {
    /// The rule's name in reports, such as `hide-from-user`.
    pub id: &'static str,
    pub severity: Severity,
    /// A description of the texts that it finds.
    pub finds: &'static str,
    /// Advice for the reader of a report.
    pub advice: &'static str,
    pub(super) looks: Detector,
}

/// How much a finding speaks against its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Hardly ever seen in honest definitions.
    High,
    /// Seen in honest definitions now and then.
    Medium,
    /// Worth a look, but often honest.
    Low,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

/// How a rule finds texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detector {
    /// Case-insensitive regular expressions over `NormalizedText`.
    Patterns(&'static [&'static str]),
    /// Regular expressions that match a whole object key, such as a parameter name.
    Keys(&'static [&'static str]),
    /// Hidden characters of one kind.
    Hidden(HiddenChar),
    /// Encoded text that matches another rule once decoded.
    Encoded,
    /// Words that mix Latin letters with look-alikes.
    MixedScripts,
    /// A tool's name that can be mistaken for another's.
    LookAlike,
    /// Text that says how to use another server's tool.
    Steering,
    /// Text that mentions another server's tool.
    Naming,
}

/// Characters that are invisible, or change how others are displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HiddenChar {
    /// Zero-width characters, soft hyphens and blank letters.
    ZeroWidth,
    /// Bidirectional controls.
    Bidi,
    /// Tags, which are invisible copies of ASCII from U+E0000 on.
    Tags,
    /// Variation selectors; each can encode a byte.
    Variations,
    /// Control characters other than line breaks and tabs.
    Control,
    /// Private-use and unassigned characters.
    PrivateUse,
    /// Terminal escape sequences.
    Terminal,
    /// Whitespace that pushes the following text out of sight.
    Spaces,
}

const HIDDEN: &str =
    "models read this text but you cannot see it: ask the server's author or remove the server";
const ORDERS: &str = "read the whole definition: if it instructs the model instead of describing \
                      the tool, remove the server or replace the text (`overrides`)";
const SECRETS: &str =
    "deny the tool in `toolFilters` or `agentPolicies` until its author has explained the purpose";
const OTHERS: &str = "a server should not direct the use of other servers' tools: put them into \
                      different toolboxes or remove this server";

/// All rules, in report order.
pub const RULES: &[RemarkRule] = &[
    RemarkRule {
        id: "tag-characters",
        severity: Severity::High,
        finds: "invisible tag characters (U+E0000 to U+E007F), which can spell hidden text",
        advice: HIDDEN,
        looks: Detector::Hidden(HiddenChar::Tags),
    },
    RemarkRule {
        id: "variation-selectors",
        severity: Severity::High,
        finds: "variation selectors that follow no symbol, or several in a row, which can encode \
                hidden text",
        advice: HIDDEN,
        looks: Detector::Hidden(HiddenChar::Variations),
    },
    RemarkRule {
        id: "bidi",
        severity: Severity::High,
        finds: "bidirectional control characters, which display text in another order than it is \
                read",
        advice: HIDDEN,
        looks: Detector::Hidden(HiddenChar::Bidi),
    },
    RemarkRule {
        id: "zero-width",
        severity: Severity::Medium,
        finds: "zero-width characters, soft hyphens or blank letters within text, except in emoji \
                and scripts that need them",
        advice: HIDDEN,
        looks: Detector::Hidden(HiddenChar::ZeroWidth),
    },
    RemarkRule {
        id: "terminal",
        severity: Severity::High,
        finds: "terminal escape sequences (ANSI), which can hide or overwrite text on a terminal",
        advice: HIDDEN,
        looks: Detector::Hidden(HiddenChar::Terminal),
    },
    RemarkRule {
        id: "control",
        severity: Severity::Medium,
        finds: "control characters other than line breaks and tabs",
        advice: HIDDEN,
        looks: Detector::Hidden(HiddenChar::Control),
    },
    RemarkRule {
        id: "private-use",
        severity: Severity::Medium,
        finds: "private-use or unassigned Unicode characters",
        advice: HIDDEN,
        looks: Detector::Hidden(HiddenChar::PrivateUse),
    },
    RemarkRule {
        id: "pushed-away",
        severity: Severity::High,
        finds: "80 or more spaces, or 15 or more line breaks in a row, which push the text after \
                them out of view",
        advice: HIDDEN,
        looks: Detector::Hidden(HiddenChar::Spaces),
    },
    RemarkRule {
        id: "comment",
        severity: Severity::Medium,
        finds: "HTML or Markdown comments, which are not rendered but reach the model",
        advice: HIDDEN,
        looks: Detector::Patterns(&["<!-- ?[^ >-]", r"\[(?://|comment)\]: ?(?:#|<>)"]),
    },
    RemarkRule {
        id: "override",
        severity: Severity::High,
        finds: "attempts to override a model's instructions (\"ignore all previous \
                instructions\"), also in German, Chinese, French and Spanish",
        advice: ORDERS,
        looks: Detector::Patterns(&[
            r"\b(?:ignore|disregard|forget|override|bypass|discard) (?:(?:all|any|every|the|of|your|my|these|those|other|system) ){0,4}(?:previous|prior|above|earlier|preceding|existing|original|safety|foregoing) (?:\w+ ){0,2}(?:instructions?|rules|prompts?|guidelines|directives|messages|constraints|context)\b",
            r"\b(?:ignore|disregard|forget|override|bypass) (?:all |the |any )?(?:of )?(?:your|system) (?:\w+ )?(?:instructions?|rules|prompts?|guidelines|directives|safety|training)\b",
            r"\b(?:new|updated|actual|real) (?:system (?:prompt|instructions?)|instructions from (?:the )?(?:system|developers?|admin\w*)) ?:",
            r"\byou are now (?:in (?:\w+ )?mode|dan\b|an? unrestricted|free (?:from|of))",
            r"\b(?:ignorier\w*|vergiss|missachte\w*) (?:\w+ ){0,2}(?:vorherigen?|bisherigen?|obigen?|früheren?) (?:\w+ )?(?:anweisung\w*|regeln?|vorgaben?|instruktion\w*)",
            r"(?:忽略|无视|忘记|忽視|無視)[^。.]{0,6}(?:之前|以前|以上|先前|此前|前面|所有)[^。.]{0,6}(?:指令|指示|说明|提示|规则|規則)",
            r"\b(?:ignore[zr]?|oubliez?) (?:toutes )?(?:les )?(?:instructions|consignes|règles) (?:précédentes|antérieures|ci-dessus)",
            r"\b(?:ignora|olvida|ignore) (?:todas )?(?:las )?(?:instrucciones|reglas) (?:anteriores|previas)",
        ]),
    },
    RemarkRule {
        id: "instruction-tag",
        severity: Severity::High,
        finds: "tags that mark text as instructions (`<IMPORTANT>`, `<system>`, `[INST]`, \
                `<|im_start|>`)",
        advice: ORDERS,
        looks: Detector::Patterns(&[
            r"</?(?:important|system|secret|hidden|critical|admin|assistant|override|urgent|mandatory|(?:system|user|hidden|secret|critical|important|llm|ai|agent|model)[ _-](?:instructions?|prompts?|messages?|notes?|rules?|reminders?|directives?))>",
            r"\[/?inst\]|<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|eot_id)\|>|<</?sys>>",
            r"\[(?:system|admin|developer)(?: (?:message|prompt|override|note|instructions?))\]",
        ]),
    },
    RemarkRule {
        id: "hide-from-user",
        severity: Severity::High,
        finds: "instructions to hide something from the user (\"do not tell the user\"), also in \
                German and Chinese",
        advice: ORDERS,
        looks: Detector::Patterns(&[
            r"\b(?:do not|don't|dont|never|must not|should not|shouldn't|without|avoid) (?:ever )?(?:tell(?:ing)?|mention(?:ing)?|inform(?:ing)?|notify(?:ing)?|alert(?:ing)?|warn(?:ing)?|disclos(?:e|ing)|reveal(?:ing)?) (?:\w+ ){0,4}(?:the |your )?(?:user|human|customer|operator)s?\b",
            r"\b(?:do not|don't|never|without) (?:mention(?:ing)?|disclos(?:e|ing)|reveal(?:ing)?|report(?:ing)?|explain(?:ing)?|display(?:ing)?|show(?:ing)?) (?:this|these|that you|it|any of this|the above)\b[^.]{0,40}\b(?:user|human|step|instruction|behaviou?r|chat|conversation)",
            r"\bkeep (?:this|it|that|these) (?:\w+ ){0,3}(?:secret|hidden|confidential|private|invisible) (?:from|to)\b",
            r"\b(?:hide|conceal) (?:this|it|these|that|the) [^.]{0,30}\bfrom (?:the |your )?(?:user|human)",
            r"\bso that (?:the )?(?:user|human) (?:does not|doesn't|will not|won't|cannot) (?:notice|see|know|find out|get upset)",
            r"\b(?:silently|secretly|covertly) (?:send|read|call|include|upload|forward|copy|pass|collect|append|add|transmit|invoke|run|execute)\b",
            r"\b(?:sag|sage|erzähl\w*|verrate?|teile) (?:dem|der|den) (?:be)?nutzer\w* (?:\w+ ){0,3}(?:nichts|nicht)|\bohne (?:dass )?(?:den|dem|der) (?:be)?nutzer\w* (?:\w+ ){0,3}(?:zu (?:informieren|sagen|fragen)|erfährt|merkt)|\berwähne (?:\w+ ){0,4}(?:nicht|niemals) (?:gegenüber )?(?:dem|den) (?:be)?nutzer",
            r"(?:不要|切勿|请勿|禁止|別|别|不得)(?:向|对|跟|让|讓)?(?:用户|使用者)?(?:告诉|告知|透露|提及|通知|知道|告訴)(?:用户|使用者)?",
        ]),
    },
    RemarkRule {
        id: "order-first",
        severity: Severity::Medium,
        finds: "instructions to call a tool before all others, on every turn or unconditionally \
                (\"before using any other tool\"), also in German and Chinese",
        advice: ORDERS,
        looks: Detector::Patterns(&[
            r"\bbefore (?:you )?(?:us(?:e|ing)|call(?:ing)?|invok(?:e|ing)|run(?:ning)?|execut(?:e|ing)|access(?:ing)?|proceeding with) (?:any|all|every|each) (?:of the )?(?:other |another )?(?:available )?(?:mcp )?(?:tools?|servers?|functions?|commands?)\b",
            r"\bprior to (?:us(?:e|ing)|call(?:ing)?|any) (?:any )?other (?:tool|server|function)",
            r"\b(?:every|each) (?:single )?(?:time (?:the user|you) (?:asks?|sends?|says?|respond|answer)|user message|assistant message|turn|response|reply|prompt)[^.]{0,30}\b(?:you )?(?:must|have to|always|shall) (?:first )?(?:call|use|invoke|run)\b",
            r"\b(?:must|always|have to|shall) (?:first )?(?:call|use|invoke|run) (?:this|it)(?: tool| function)? (?:first |once )?(?:(?:before|after|on|at|in|for|with) (?:any|every|each|all)\b[^.]{0,20}\b(?:conversation|session|message|turn|request|response|prompt|task|tool|action|operation|reply|chat)|regardless|no matter)",
            r"\b(?:you )?(?:must|need to|have to) (?:always|unconditionally|immediately) (?:call|invoke|execute|run) (?:this|the|it|`?[a-z0-9]+_\w+)",
            r"\bthis (?:tool |function )?(?:must|has to|needs to) (?:always )?be (?:called|invoked|used|run|executed) (?:first,? )?(?:before|prior to) (?:any|all|every|each) other\b",
            r"\bbevor (?:du|sie) (?:ein |irgendein |jedes )?ander\w+ (?:tool|werkzeug)|\bvor (?:jedem|allen) ander\w+ (?:tools?|werkzeug\w*)",
            r"在?(?:使用|调用|調用|运行)(?:任何|所有)(?:其他|其它)?(?:的)?(?:工具|函数)(?:之前|前)",
        ]),
    },
    RemarkRule {
        id: "preference",
        severity: Severity::Medium,
        finds: "self-promotion: a tool that asks to be preferred over others, or disparages them",
        advice: "compare the text with what the tool does: a good tool need not advertise itself \
                 to the model; replace the text (`overrides`)",
        looks: Detector::Patterns(&[
            r"\b(?:always|must) (?:prefer|choose|pick|select|prioriti[sz]e) this (?:tool|server|function|service)\b",
            r"\bprefer this (?:tool|server|function|service) (?:over|to|above|instead of|before) (?:all|any|every|other)\b",
            r"\b(?:instead of|rather than|over|in preference to) (?:all|any|every)(?: of the)? (?:other|alternative|similar|competing) (?:\w+ )?(?:tools?|servers?|functions?|services?|options)\b",
            r"\b(?:never|do not|don't|avoid) (?:use|us(?:e|ing)|call(?:ing)?|select(?:ing)?|choos(?:e|ing)) (?:any )?(?:other|alternative|similar|competing) (?:\w+ )?(?:tools?|servers?|functions?)\b",
            r"\b(?:all )?other (?:\w+ )?(?:tools|servers|functions) (?:are|have been|will be|may be) (?:now )?(?:deprecated|unsafe|outdated|broken|insecure|unreliable|inaccurate|obsolete|compromised|disabled|inferior)\b",
            r"\b(?:the )?(?:best|most (?:accurate|reliable|trusted|powerful)|only (?:trusted|reliable|approved|official)) (?:tool|server|function)\b[^.]{0,40}\b(?:always|must|should be|prefer|choose|select|priority)",
        ]),
    },
    RemarkRule {
        id: "secret-place",
        severity: Severity::High,
        finds: "paths of secrets (`~/.ssh/id_rsa`, `.aws/credentials`, `.env`, `mcp.json`), or \
                requests to read them",
        advice: SECRETS,
        looks: Detector::Patterns(&[
            r"(?:\.ssh/(?:id_[a-z0-9]+|config|authorized_keys|known_hosts)\b|\bid_(?:rsa|ed25519|ecdsa|dsa)\b)",
            r"\.aws/credentials|\.kube/config|\.git-credentials|\.docker/config\.json|\.gnupg/|\.config/gcloud|/etc/shadow|\.bash_history|\.zsh_history|login\.keychain|wallet\.dat",
            r"\b(?:read|open|include|pass|send|cat|attach|load|provide|upload|copy|fetch|contents? of|from) (?:\S+ ){0,6}['`]?(?:~/|\./|\$home/)?(?:\S*/)?(?:\.env\b|\.netrc\b|\.npmrc\b|\.pypirc\b|\.?mcp\.json\b|claude_desktop_config\.json|/etc/passwd)",
            r"(?:读取|打开|发送|上传)[^。]{0,20}(?:\.ssh|\.env|私钥|密钥|密码|凭证)",
            r"\b(?:lies|lese|öffne|sende|schicke) [^.]{0,30}(?:\.ssh|\.env|privaten schlüssel|passwör\w+|zugangsdaten)",
        ]),
    },
    RemarkRule {
        id: "wants-secrets",
        severity: Severity::High,
        finds: "requests to put secrets, file contents or the conversation into a parameter",
        advice: SECRETS,
        looks: Detector::Patterns(&[
            r"\b(?:pass|put|place|provide|include|insert|append|write|add|send|attach) (?:(?:the|its|their|all|full|entire|complete|raw|whole|any|this|that|of|user's|your|file|file's) ){0,5}(?:contents?|text)(?: of (?:\S+ ){1,5}| )(?:as|in|into|to|via|through) (?:the |a |this |an )?['`]?\w+['`]? (?:parameter|argument|field|input)\b",
            r"\b(?:pass|put|place|include|insert|append|write|send|attach|copy) (?:(?:the|its|their|all|full|entire|complete|raw|whole|any|current|user's|your|our|so|far|of) ){0,5}(?:conversation(?: history)?|chat (?:history|log)|message history|previous messages|system prompt|chain of thought|tool (?:list|definitions)|list of (?:all )?(?:available )?tools|environment variables)\b[^.]{0,50}\b(?:as|in|into|to|via|through|here)\b",
            r"\b(?:pass|put|place|include|insert|append|write|send|attach|copy|collect|harvest|gather|read) (?:\w+ ){0,4}(?:api[ _-]?keys?|passwords?|credentials|secrets|private keys?|ssh keys?|seed phrases?|(?:session|access|auth) (?:cookies|tokens)) (?:\S+ ){0,8}(?:sidenote|side note|to this tool|(?:as|in|into|via|through) (?:the |a |this )?['`]?\w+['`]? (?:parameter|argument|field)|you (?:can find|know|have (?:seen|access)))",
            r"\b(?:any|all) (?:api[ _-]?keys?|passwords?|credentials|secrets|tokens) (?:that )?(?:you (?:can find|know|have (?:seen|access))|(?:found|seen|mentioned|available) in (?:the |this )?(?:conversation|context|chat|environment|memory))",
        ]),
    },
    RemarkRule {
        id: "collecting-parameter",
        severity: Severity::High,
        finds: "parameter names that collect unrelated data (`sidenote`, `conversation_history`, \
                `chain_of_thought`, `content_of_env_file`)",
        advice: SECRETS,
        looks: Detector::Keys(&[
            r"side_?note",
            r"(?:full_?|entire_?|complete_?)?(?:conversation|chat|message)_?(?:history|log|transcript)",
            r"(?:full|entire|complete|whole|previous)_?(?:conversation|context|chat|messages)",
            r"chain_?of_?thought|tools?_?list_?available|available_?tools_?list",
            r"contents?_?(?:of|from)_.*(?:ssh|env|key|secret|config|credential|password|token|file|reading).*",
            r".*(?:ssh_?private_?key|id_?rsa|mcp_?json|env_?file_?contents?|dotenv_?contents?|seed_?phrase|aws_?credentials|user_?passwords?).*",
        ]),
    },
    RemarkRule {
        id: "exfiltration",
        severity: Severity::High,
        finds: "instructions to send data to a URL, email address or phone number (\"upload … to \
                https://…\", \"bcc …@…\")",
        advice: SECRETS,
        looks: Detector::Patterns(&[
            r"\b(?:also|then|additionally|always|must|silently|secretly|first|automatically|please) (?:\w+ )?(?:send|post|upload|forward|transmit|report|submit|copy|exfiltrate|bcc|cc|leak) (?:\S+ ){0,14}(?:to|at|via) (?:\S+ ){0,4}\S{0,3}(?:https?://|wss?://|\+\d{6,}|\S+@\S+\.\w)",
            r"\b(?:send|post|upload|forward|transmit|exfiltrate|copy|leak) (?:\S+ ){0,6}(?:conversation|chat|history|messages|secrets?|credentials?|passwords?|keys?|tokens?|contents?|files?|results?|responses?|e-?mails?|data) (?:\S+ ){0,6}to (?:\S+ ){0,3}\S{0,3}(?:https?://\w|\S+@\S+\.\w)",
            r"\bbcc (?:it|them|this|these|all|every\w*|each|a copy|to) (?:\S+ ){0,6}\S*[\w.+-]+@[\w-]+\.\w",
            r"\b(?:add|put|set|include|insert) (?:\S+ ){0,6}\S*[\w.+-]+@[\w-]+\.\w+\S* (?:\w+ ){0,3}(?:in|as|to|into) (?:the )?['`]?b?cc\b",
            r"\b(?:change|replace|set|redirect|substitute) (?:\S+ ){0,4}(?:recipients?|to field|destination|phone numbers?|address) (?:\S+ ){0,3}(?:to|with|as|by) \S{0,3}(?:\+?\d{6,}|\S+@\S+\.\w|0x[0-9a-f]{8,}|https?://)",
        ]),
    },
    RemarkRule {
        id: "shadowing",
        severity: Severity::High,
        finds: "instructions triggered by the use or presence of another tool (\"when send_message \
                is called, change …\")",
        advice: OTHERS,
        looks: Detector::Patterns(&[
            r"\b(?:when|whenever|if|each time|every time) (?:the |a |an |any )?['`]?[\w.-]+['`]?(?: (?:tool|function|server))? (?:is|are|gets|was) (?:called|used|invoked|available|present|installed|executed|being called|being used)[^.]{0,60}\b(?:must|you (?:have|need) to|always (?:change|set|use|add|include|send)|change (?:the|its)|replace (?:the|its)|redirect)\b",
            r"\b(?:side effects?|behaviou?r) (?:of|for|on|to) (?:the )?['`]?\w+_\w+['`]?[^.]{0,40}\bmust\b",
            r"\b(?:this|the following) (?:rule|instruction|note|requirement)s? appl(?:y|ies) to (?:all|any|every|the) other (?:tools?|servers?)\b",
        ]),
    },
    RemarkRule {
        id: "obey-output",
        severity: Severity::Medium,
        finds: "instructions to obey a tool's output, or to read something if a call fails (output \
                poisoning)",
        advice: "tool results are data: check them with `mcp-workbench call` before agents use the \
                 tool unattended",
        looks: Detector::Patterns(&[
            r"\b(?:follow|obey|execute|carry out|comply with) (?:\w+ ){0,3}(?:instructions?|orders|commands|directives|steps) (?:that (?:are|is) )?(?:\w+ ){0,3}(?:contained |returned |given |included |found )(?:in|by|with|from) (?:the |its |this )?(?:\w+ )?(?:results?|responses?|output|errors?|answers?|messages?)\b[^.]{0,60}(?:without|exactly|even if|no matter|do not|never|immediately|before anything)",
            r"\btreat (?:the |its |this |all )?(?:\w+ )?(?:results?|responses?|output|answers?) (?:\w+ ){0,4}as (?:\w+ ){0,2}(?:instructions?|orders|commands|system)\b",
            r"\b(?:if|when) (?:this|the|it) (?:tool |call |function |request )?(?:fails|errors|returns an error|reports an error|is denied)[^.]{0,40}\b(?:read|open|provide|pass|include|send|attach) (?:\S+ ){0,6}(?:file|key|credentials?|secrets?|contents?|password)",
            r"\b(?:output|results?|responses?) (?:of this tool |from this tool )?(?:has|have|takes?) (?:precedence|priority) over (?:\w+ ){0,3}(?:instructions?|prompt|rules|user)",
        ]),
    },
    RemarkRule {
        id: "sleeper",
        severity: Severity::Medium,
        finds: "instructions that take effect later: after some calls, after approval or from a \
                date on",
        advice: "text that takes effect later is meant to gain trust first: remove the server",
        looks: Detector::Patterns(&[
            r"\b(?:after|from|starting (?:with|from)|beginning with|on|upon) (?:the )?(?:second|third|fourth|fifth|tenth|\d+(?:st|nd|rd|th)) (?:call|use|run|invocation|time|request|execution)\b[^.]{0,60}\b(?:must|instead|you|read|send|include|change|also|switch)\b",
            r"\b(?:once|after) (?:the )?(?:user|human) (?:has )?(?:approved|trusts?|accepted|granted|confirmed)\b[^.]{0,60}\b(?:must|instead|read|send|include|switch|no longer|also)\b",
            r"\b(?:if|when|once|after|from) (?:the )?(?:current )?(?:date|day|year|time) (?:is |has )?(?:after|past|passed|reached|later than)[^.]{0,60}\b(?:must|instead|read|send|include|switch|also)\b",
        ]),
    },
    RemarkRule {
        id: "encoded",
        severity: Severity::High,
        finds: "base64 or hexadecimal text that matches another rule once decoded",
        advice: HIDDEN,
        looks: Detector::Encoded,
    },
    RemarkRule {
        id: "mixed-scripts",
        severity: Severity::High,
        finds: "words that mix Latin letters with similar Cyrillic or Greek letters",
        advice: "the word is not the one that it appears to be: ask the server's author or remove \
                 the server",
        looks: Detector::MixedScripts,
    },
    RemarkRule {
        id: "look-alike",
        severity: Severity::High,
        finds: "a tool name that resembles another server's tool or a well-known one, or differs \
                from it by one letter",
        advice: "compare the two: unless they have the same author, hide one with `toolFilters` or \
                 rename it (`overrides`)",
        looks: Detector::LookAlike,
    },
    RemarkRule {
        id: "steers-other-tool",
        severity: Severity::High,
        finds: "text that says how or when to use, or not to use, another server's tool",
        advice: OTHERS,
        looks: Detector::Steering,
    },
    RemarkRule {
        id: "names-other-tool",
        severity: Severity::Low,
        finds: "text that mentions another server's tool",
        advice: "check why: a description has little reason to mention another server's tools",
        looks: Detector::Naming,
    },
];

pub(super) fn rule_with(looks: Detector) -> Option<&'static RemarkRule> {
    RULES.iter().find(|rule| rule.looks == looks)
}
