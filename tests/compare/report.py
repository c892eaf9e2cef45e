"""Generates the tables of `tests/compare/README.md` from the results."""

import re
import statistics

BEGIN, END = "<!-- compare: {} -->", "<!-- end of {} -->"


def number(value, unit=""):
    return "–" if value is None else f"{value:,}{unit}"


def middle(values):
    return None if not values else round(statistics.median(values))


def table(head, rows):
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *rows])


def named(name, row):
    return f"{name} {row['version']}".strip()


def context(programs):
    head = ["", "tools", "initial bytes", "bytes before the first call"]
    rows = []
    for name, row in programs.items():
        if "initial context, bytes" not in row:
            continue
        before = row.get("discovery, bytes")
        total = None if before is None else row["initial context, bytes"] + before
        rows.append([named(name, row), number(row["tools"]), number(row["initial context, bytes"]), number(total)])
    return table(head, rows)


def time(programs):
    head = ["", "first list, ms", "first call, ms", "call, ms", "× direct", "memory, MB", "processes"]
    rows = []
    for name, row in programs.items():
        if "call, ms" not in row:
            continue
        own = row.get("own processes")
        rows.append(
            [
                named(name, row),
                number(middle(row.get("first list, ms"))),
                number(middle(row.get("first call, ms"))),
                number(row["call, ms"]),
                number(row["call, times direct"]),
                number(row.get("memory, MB")),
                number(own),
            ]
        )
    return table(head, rows)


def failing(programs):
    head = ["", "exiting server: list, call", "unresponsive server: list, call", "left after kill"]

    def both(row, kind):
        if kind not in row:
            return "–"
        return "no response" if row[kind] is None else "{} s, {} s".format(*row[kind])

    rows = [
        [named(name, row), both(row, "exiting server, s"), both(row, "unresponsive server, s"), row.get("left after kill", "–")]
        for name, row in programs.items()
        if "exiting server, s" in row
    ]
    return table(head, rows)


def passing(programs):
    all = {name: row for name, row in programs.items() if row.get("passes")}
    whats = list(next(iter(all.values()))["passes"]) if all else []
    head = ["", *(named(name, row) for name, row in all.items())]
    rows = [[what, *(row["passes"].get(what, "–") for row in all.values())] for what in whats]
    return table(head, rows)


def write(all, page):
    with open(page, encoding="utf-8") as file:
        text = file.read()
    made = {"context": context, "time": time, "failing": failing, "passing": passing}
    for name, make in made.items():
        begin, end = BEGIN.format(name), END.format(name)
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        assert pattern.search(text), f"{page} has no markers for the table {name}"
        block = f"{begin}\n\n{make(all['programs'])}\n\n{end}"
        text = pattern.sub(lambda _: block, text)
    loads = all["load"]
    when = f"{all['date']}, {all['processors']} processors, load {min(loads)} to {max(loads)}"
    text = re.sub(r"<!-- when -->.*?<!-- end of when -->", f"<!-- when -->{when}<!-- end of when -->", text)
    with open(page, "w", encoding="utf-8") as file:
        file.write(text)
