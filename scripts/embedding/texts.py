"""What the table is fitted on: WordNet's definitions and examples, and sentences of ours about what
tools do. The sentences are put together from lists that were written for this and owe nothing to any
server's descriptions or to the data that search is measured on."""

import random
import re
from pathlib import Path

# What is done (each a group of words for much the same), to what, and where.
FIELDS = [
    (
        ["create|open|file|report|raise", "close|resolve|finish", "assign|hand over", "comment on|reply to",
         "list|show|get all", "search|find|look up", "label|tag", "reopen", "update|edit|change"],
        ["an issue", "a ticket", "a bug", "a task", "a feature request", "the backlog", "a sprint", "an epic", "a milestone"],
        ["in the tracker", "of the project", "on the board", "of my team", "by priority", "that is overdue"],
    ),
    (
        ["create|open|submit", "merge|accept|land", "review|approve", "list|show", "close|reject", "compare|diff", "fetch|read"],
        ["a pull request", "a merge request", "a branch", "a commit", "a code review", "a release", "a tag", "a fork"],
        ["of the repository", "into main", "with its changes", "by its author", "since last week"],
    ),
    (
        ["clone|check out", "commit|save", "stage|add", "revert|undo", "push|upload", "pull|download", "blame|trace", "show|print"],
        ["the repository", "my changes", "the working tree", "the last commit", "the history", "a conflict", "the index"],
        ["to the remote", "on this branch", "with a message", "of one file"],
    ),
    (
        ["read|open|print|view", "write|save|store", "delete|remove|erase", "move|rename", "copy|duplicate", "list|show",
         "search|find|grep", "edit|change|replace text in", "watch|monitor", "compress|zip|pack"],
        ["a file", "a folder", "a directory", "the contents of a file", "a text file", "an image file", "files by pattern", "the metadata of a file"],
        ["on the disk", "in the home folder", "recursively", "by name", "larger than a size", "on my computer"],
    ),
    (
        ["run|execute", "start|launch", "stop|kill|end", "list|show", "inspect|describe", "restart"],
        ["a shell command", "a script", "a process", "a program", "a background job", "a terminal session", "a service"],
        ["on this machine", "with arguments", "and get its output", "over SSH", "on the server"],
    ),
    (
        ["run|execute", "list|show", "describe|explain", "insert|add", "update|change", "delete|drop|remove", "export|dump", "create|make"],
        ["an SQL query", "the tables", "a table", "the schema", "rows", "a database", "a collection", "documents", "an index", "a record", "a view", "a key"],
        ["in the database", "that match a filter", "by id", "with aggregation", "from the cache", "of the cluster"],
    ),
    (
        ["send|write", "reply to|answer", "forward", "read|open", "search|find", "delete|trash", "archive", "draft|compose", "label|mark"],
        ["an email", "a message", "the inbox", "unread mail", "an attachment", "a newsletter", "a thread", "a mail folder"],
        ["to a colleague", "from my boss", "by subject", "of this week", "with a file attached"],
    ),
    (
        ["post|send|write", "read|fetch|get", "list|show", "search|find", "react to|like", "pin", "delete|remove", "join|enter", "invite someone to"],
        ["a chat message", "a channel", "a direct message", "a thread", "a conversation", "a group", "members", "an emoji", "an announcement"],
        ["in the team chat", "of the workspace", "for everyone", "from yesterday"],
    ),
    (
        ["create|schedule|book|plan", "cancel|delete", "move|reschedule|postpone", "list|show", "find|look for", "accept|decline", "remind me of"],
        ["a meeting", "an event", "an appointment", "a free slot", "my calendar", "a reminder", "a call", "a birthday", "an invitation"],
        ["for tomorrow", "next week", "with two colleagues", "in the afternoon", "every Monday"],
    ),
    (
        ["add|create|write down", "complete|check off|finish", "list|show", "delete|remove", "move|reorder", "change|edit"],
        ["a to-do", "a task", "a note", "a list", "a reminder", "a project", "a card", "a checklist", "a bookmark"],
        ["with a due date", "to my list", "by tag", "for today", "in my notebook"],
    ),
    (
        ["create|write|make", "read|get", "append to|extend", "update|edit|rewrite", "search|find", "share|publish", "export|convert", "translate", "summarize|sum up"],
        ["a document", "a page", "a wiki article", "a report", "a paragraph", "a heading", "a comment", "a template", "a PDF", "a presentation", "a slide"],
        ["in the workspace", "as Markdown", "with pictures", "in another language", "for the customer"],
    ),
    (
        ["read|get", "write|set|fill in", "add|insert", "delete|remove", "format|color", "sort|filter", "create|make", "calculate|sum"],
        ["a spreadsheet", "a cell", "a range of cells", "a row", "a column", "a worksheet", "a formula", "a pivot table", "a chart"],
        ["in the workbook", "by value", "of the table", "with a header"],
    ),
    (
        ["search|look up|google", "fetch|download|get", "read|extract", "crawl|scrape", "summarize", "check|test"],
        ["the web", "a web page", "a site", "news", "a link", "an article", "images", "an RSS feed", "a URL", "search results"],
        ["about a topic", "as plain text", "from the internet", "of the last days", "on a website"],
    ),
    (
        ["open|go to|navigate to", "click|press", "type|enter|fill in", "take|capture", "scroll", "wait for", "close", "evaluate|run", "select|choose"],
        ["a page", "a button", "a form", "a screenshot", "a browser tab", "a link", "an element", "a dialog", "JavaScript", "a drop-down menu"],
        ["in the browser", "with the mouse", "on the screen", "by selector"],
    ),
    (
        ["find|search|look for", "get|show", "calculate|compute|measure", "plan|compare", "locate|geocode"],
        ["a route", "directions", "a place", "an address", "restaurants nearby", "the distance", "travel time", "coordinates", "a map", "a bus connection", "traffic"],
        ["between two cities", "by car", "on foot", "around here", "with public transport"],
    ),
    (
        ["get|show|tell me", "look up|find", "compare", "warn me of|alert on"],
        ["the weather", "a forecast", "the temperature", "rain", "wind", "snow", "air quality", "a storm", "humidity"],
        ["for tomorrow", "in a city", "by the hour", "at these coordinates", "for the weekend"],
    ),
    (
        ["search|find", "book|reserve", "cancel", "compare", "get|show"],
        ["flights", "a hotel", "a trip", "a train", "a rental car", "an apartment", "an airport", "a ticket", "a table at a restaurant"],
        ["for two people", "below a price", "with free cancellation", "on a date", "with one stop"],
    ),
    (
        ["get|show|fetch", "track|watch", "convert|exchange", "buy|sell|trade", "list", "analyze|chart"],
        ["a stock price", "exchange rates", "a currency", "a portfolio", "cryptocurrency", "a company's earnings", "market news", "a balance", "dividends", "a wallet", "a token"],
        ["of today", "in euros", "over the last year", "by ticker symbol"],
    ),
    (
        ["create|issue|send", "refund|return", "list|show", "cancel", "pay|settle", "update|change", "charge|bill"],
        ["an invoice", "a payment", "a customer", "a subscription", "an order", "a product", "a coupon", "a receipt", "an expense", "a shopping cart", "a price"],
        ["for a client", "by credit card", "of the shop", "that failed", "of this month"],
    ),
    (
        ["create|add", "find|look up|search", "update|change", "delete|remove", "merge", "list|show", "log|record"],
        ["a contact", "a lead", "a deal", "a company", "an account", "a campaign", "a phone call", "an opportunity", "a support case"],
        ["in the CRM", "by name", "with an email address", "of the sales team"],
    ),
    (
        ["play|start", "pause|stop", "skip", "search|find", "add|queue", "get|show", "download|save", "turn up|raise|lower"],
        ["a song", "a playlist", "an album", "a video", "the volume", "subtitles", "a transcript", "a podcast", "a film", "lyrics", "an artist"],
        ["on the speaker", "by title", "of a channel", "in the living room"],
    ),
    (
        ["turn on|switch on", "turn off|switch off", "set|change|adjust", "get|read", "lock|unlock", "list|show"],
        ["the lights", "a lamp", "the thermostat", "a sensor", "the door", "a scene", "an automation", "a device", "the heating", "a camera"],
        ["in the kitchen", "at home", "to a color", "when I leave"],
    ),
    (
        ["generate|create|draw|make", "edit|change", "resize|scale", "crop|cut", "convert", "describe|caption", "upload"],
        ["an image", "a picture", "a photo", "a logo", "a diagram", "a chart", "a flowchart", "an icon", "a video clip", "a design", "a 3D model", "a QR code"],
        ["from a prompt", "as PNG", "without background", "with labels", "from data"],
    ),
    (
        ["transcribe|write down", "speak|read aloud", "translate", "detect|recognize", "summarize", "classify|categorize", "embed"],
        ["speech", "an audio file", "a text", "the language", "a recording", "sentiment", "entities", "a voice message"],
        ["into English", "with a voice", "in real time", "with timestamps"],
    ),
    (
        ["create|provision|deploy", "delete|tear down", "list|show", "scale|resize", "start|stop", "describe|get details of", "configure|set up", "back up|restore"],
        ["a virtual machine", "a container", "a cluster", "a pod", "a storage bucket", "a load balancer", "a subscription", "a resource group", "a function app", "a secret", "a queue", "a DNS record", "a network", "an image registry", "a volume", "a disk", "a key vault", "a web app", "a firewall rule", "a quota"],
        ["in the cloud", "in a region", "by name", "of the account", "with tags"],
    ),
    (
        ["query|search", "get|show|fetch", "create|set up", "acknowledge|silence", "list", "analyze|investigate"],
        ["logs", "metrics", "traces", "an alert", "a dashboard", "an incident", "errors", "uptime", "an exception", "a health check", "latency", "costs"],
        ["of the last hour", "by service", "in production", "above a threshold", "with stack traces"],
    ),
    (
        ["run|trigger|start", "cancel|stop", "list|show", "get|download", "retry|rerun", "fix|debug"],
        ["a build", "a pipeline", "a workflow", "a job", "the tests", "build logs", "an artifact", "a deployment", "a failing test"],
        ["on this branch", "of the last run", "in CI", "with coverage"],
    ),
    (
        ["install|add", "update|upgrade", "search|find", "remove|uninstall", "audit|check", "list|show", "get documentation for|explain"],
        ["a package", "a library", "a dependency", "a vulnerability", "a version", "a license", "an API", "a function", "code examples", "release notes"],
        ["from the registry", "of the project", "with known flaws", "by popularity"],
    ),
    (
        ["search|find", "get|fetch", "cite|export", "summarize", "download", "list"],
        ["a paper", "scientific articles", "an abstract", "citations", "an author", "a book", "a clinical trial", "a gene", "a protein", "a patent", "an encyclopedia article", "a court decision"],
        ["on a topic", "by year", "in a journal", "with full text"],
    ),
    (
        ["calculate|compute|work out", "convert", "solve", "plot|draw", "round", "generate|pick"],
        ["an expression", "an equation", "a sum", "a percentage", "units", "an average", "a random number", "a matrix", "statistics", "a date difference", "a time zone", "the current time"],
        ["step by step", "from miles to kilometers", "of a list", "with high precision"],
    ),
    (
        ["remember|store|save", "recall|retrieve|look up", "forget|delete", "link|relate", "list|show"],
        ["a fact", "a memory", "knowledge", "an entity", "an observation", "a relation", "a preference", "what was said"],
        ["about a person", "for later", "in the knowledge graph", "from earlier conversations"],
    ),
    (
        ["create|add", "list|show", "grant|give", "revoke|take away", "reset|change", "check|verify", "rotate|renew"],
        ["a user", "permissions", "a role", "a password", "access", "an API key", "a certificate", "a group", "a policy", "a login"],
        ["for the team", "of an account", "with two factors", "by email"],
    ),
    (
        ["like|favorite", "post|publish|share", "follow|unfollow", "get|show", "search|find", "schedule", "delete"],
        ["a post", "a tweet", "a profile", "followers", "comments", "a story", "trending topics", "a hashtag", "a feed"],
        ["on social media", "with a picture", "of a user", "for tomorrow morning"],
    ),
    (
        ["find|search", "get|show", "log|record", "plan|suggest", "track"],
        ["a recipe", "ingredients", "calories", "a workout", "sleep", "steps", "a meal plan", "heart rate", "a medicine", "symptoms", "a job", "a house", "a game", "a score", "a horoscope"],
        ["for dinner", "without meat", "of this week", "near me", "for beginners"],
    ),
]

FRAMES = ["{what}", "{what} {where}", "{what} {where}", "please {what}", "I want to {what} {where}", "{what} and {more}", "a tool to {what}", "how do I {what} {where}?"]


def sentences(count, seed=1):
    """Sentences of ours, no two the same."""
    chance = random.Random(seed)
    made = {}
    while len(made) < count:
        verbs, things, places = chance.choice(FIELDS)

        def what():
            return f"{chance.choice(chance.choice(verbs).split('|'))} {chance.choice(things)}"

        frame = chance.choice(FRAMES)
        made[frame.format(what=what(), more=what(), where=chance.choice(places))] = None
    return list(made)


def wordnet(folder, count, seed=2):
    """Definitions after the words that they define, definitions alone, and examples."""
    found = {}
    for part in ("noun", "verb", "adj", "adv"):
        for line in (Path(folder) / f"data.{part}").read_text(encoding="latin-1").splitlines():
            if line.startswith("  "):
                continue
            head, gloss = line.split(" | ", 1)
            fields = head.split()
            words = [fields[4 + 2 * index].replace("_", " ") for index in range(int(fields[3], 16))]
            words = [re.sub(r"\((a|p|ip)\)$", "", word) for word in words]
            examples = re.findall(r'"([^"]+)"', gloss)
            definition = gloss.split('; "')[0].strip()
            if definition.startswith('"'):
                continue
            found[definition] = None
            found[f"{', '.join(words[:4])}: {definition}"] = None
            found.update((example, None) for example in examples)
    found = [text for text in found if 2 < len(text.split()) < 30]
    random.Random(seed).shuffle(found)
    return found[:count]
