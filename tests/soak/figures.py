"""Samples figures of the processes every second, and plots them."""

import http.client
import math
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """A figure: its title, its unit's size, and its allowed growth (`more`, `times`)."""

    title: str
    more: float = 0
    times: float = 1
    unit: float = 1

    def most(self, before):
        return before * self.times + self.more


MEMORY = {"more": 4 << 20, "times": 1.15, "unit": 1 << 20}
FIGURES = {
    "memory": Figure("Private memory over HTTP, MiB", **MEMORY),
    "stdio memory": Figure("Private memory over stdio, MiB", **MEMORY),
    "processes": Figure("Processes, with all servers"),
    "descriptors": Figure("Open files over HTTP"),
    "stdio descriptors": Figure("Open files over stdio"),
    "threads": Figure("Threads over HTTP"),
    "stdio threads": Figure("Threads over stdio"),
    "tasks": Figure("Tasks over HTTP"),
    "sessions": Figure("Sessions"),
    "servers": Figure("Servers over HTTP"),
    "calls": Figure("Requests in flight over HTTP"),
    "connections": Figure("Connections"),
}
# Plotted figures; the others appear only in the table.
DRAWN = ["memory", "stdio memory", "processes", "descriptors", "threads", "tasks", "sessions"]


def measure(soak):
    """Samples all figures."""
    pids = [soak.http.pid, soak.stdio.child.pid]
    text = metrics(soak.port)
    # Exclude this request's own connection.
    gauge = lambda name: sum(float(v) for v in re.findall(rf"^mcp_workbench_{name} (\d+)$", text, re.M))
    row = {
        "seconds": round(time.monotonic() - soak.began, 1),
        "processes": len(soak.family.below(os.getpid())),
        "tasks": gauge("runtime_tasks"),
        "sessions": gauge("sessions"),
        "servers": gauge(r"servers_running\{.*\}"),
        "calls": gauge(r'caller_usage\{quota="calls"\}'),
        "connections": gauge(r'caller_usage\{quota="connections"\}') - 1,
    }
    for name, pid in zip(["", "stdio "], pids):
        status = Path(f"/proc/{pid}/status").read_text()
        field = lambda key: int(re.search(rf"^{key}:\s+(\d+)", status, re.M)[1])
        row[f"{name}memory"] = field("RssAnon") * 1024
        row[f"{name}threads"] = field("Threads")
        row[f"{name}descriptors"] = len(os.listdir(f"/proc/{pid}/fd"))
    row["descriptors"] -= 1
    return row


def metrics(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/metrics")
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    if response.status != 200:
        raise http.client.HTTPException(f"/metrics returned status {response.status}: {text[:200]}")
    return text


def shown(name, value):
    value /= FIGURES[name].unit
    return f"{value:.1f}" if FIGURES[name].unit > 1 else f"{value:.0f}"


def leaks(before, after):
    """Figures that grew more than allowed."""
    return [
        f"{figure.title.lower()}: {shown(name, before[name])} after the warm-up, {shown(name, after[name])} at the end"
        for name, figure in FIGURES.items()
        if after[name] > figure.most(before[name])
    ]


STYLE = """
text { font: 12px sans-serif; fill: #1f2328 } .soft { fill: #59636e } .back { fill: #ffffff }
.rest { fill: #ddf4ff } .axis { stroke: #d1d9e0 } .line { stroke: #0969da; fill: none; stroke-width: 1.5 }
.base { stroke: #1a7f37; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .soft { fill: #9198a1 } .back { fill: #0d1117 } .rest { fill: #12263f }
  .axis { stroke: #3d444d } .line { stroke: #4493f8 } .base { stroke: #3fb950 }
}
"""
WIDTH, HEIGHT, GAP, LEFT, RIGHT = 680, 70, 34, 56, 24
# Maximum number of time labels on the axis.
MOST_LABELS = 12


def plot(rows, rests, before, title):
    """Plots one panel per figure over time, with rest periods shaded and the initial value as a dashed line."""
    last = rows[-1]["seconds"]
    across = lambda seconds: LEFT + seconds / last * WIDTH
    top = 44
    bottom = top + len(DRAWN) * (HEIGHT + GAP)
    whole = LEFT + WIDTH + RIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {bottom + 12}" role="img">',
        f"<title>{title}</title><style>{STYLE}</style>",
        f'<rect class="back" width="{whole}" height="{bottom + 12}"/>',
        f'<text x="{LEFT}" y="20" font-weight="bold">{title}</text>',
    ]
    for index, name in enumerate(DRAWN):
        parts += panel(name, rows, rests, before, top + index * (HEIGHT + GAP) + 14, across)
    whole_minutes = int(last // 60) + 1
    minutes = range(0, whole_minutes, max(1, math.ceil(whole_minutes / MOST_LABELS)))
    parts += [
        f'<text class="soft" x="{across(60 * minute):.0f}" y="{bottom + 4}" text-anchor="middle">{minute} min</text>'
        for minute in minutes
    ]
    return "\n".join(parts) + "\n</svg>\n"


def panel(name, rows, rests, before, top, across):
    values = [row[name] for row in rows]
    most = max(values) or 1
    down = lambda value: top + HEIGHT - value / most * HEIGHT
    # Plot only the maximum per pixel column, to limit the file size of long runs.
    columns = {}
    for row in rows:
        column = round(across(row["seconds"]))
        columns[column] = max(columns.get(column, 0), row[name])
    points = " ".join(f"{column},{down(value):.1f}" for column, value in columns.items())
    foot = top + HEIGHT
    for begin, end in rests:
        width = across(end) - across(begin)
        yield f'<rect class="rest" x="{across(begin):.1f}" y="{top}" width="{width:.1f}" height="{HEIGHT}"/>'
    yield f'<path class="axis" d="M{LEFT} {top}V{foot}H{LEFT + WIDTH}" fill="none"/>'
    level = down(before[name])
    yield f'<path class="base" d="M{LEFT} {level:.1f}H{LEFT + WIDTH}"/>'
    yield f'<polyline class="line" points="{points}"/>'
    yield f'<text x="{LEFT}" y="{top - 6}">{FIGURES[name].title}</text>'
    yield f'<text class="soft" x="{LEFT - 6}" y="{top + 10}" text-anchor="end">{shown(name, most)}</text>'
    yield f'<text class="soft" x="{LEFT - 6}" y="{foot}" text-anchor="end">0</text>'
