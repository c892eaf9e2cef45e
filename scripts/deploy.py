"""Checks the structure of files in deploy/ without the programs that read them."""

import json
import sys
from pathlib import Path

import yaml

# The service keys that deploy/compose.yaml uses, to detect misspelled ones.
SERVICE = {
    "cap_drop", "command", "depends_on", "environment", "healthcheck", "image", "init", "mem_limit",
    "ports", "read_only", "restart", "security_opt", "stop_grace_period", "tmpfs", "user", "volumes",
}  # fmt: skip
RULE = {"alert", "annotations", "expr", "for", "labels"}


class Wrong(Exception):
    """A file has an invalid structure."""


def keys(where: str, found: dict, known: set[str], needed: set[str] = frozenset()) -> None:
    """Fails on unknown and missing keys."""
    if unknown := set(found) - known:
        raise Wrong(f"{where}: unknown keys {', '.join(sorted(unknown))}")
    if missing := needed - set(found):
        raise Wrong(f"{where}: missing keys {', '.join(sorted(missing))}")


def compose(file: Path) -> None:
    """Services have known keys, and their dependencies exist."""
    found = yaml.safe_load(file.read_text())
    keys(file.name, found, {"name", "services", "x-workbench"}, {"services"})
    for name, service in found["services"].items():
        keys(f"{file.name}, {name}", service, SERVICE, {"image", "command"})
        if missing := set(service.get("depends_on", [])) - set(found["services"]):
            raise Wrong(f"{file.name}, {name}: depends on unknown services {', '.join(missing)}")
        for volume in service.get("volumes", []):
            if not (file.parent / volume.split(":")[0]).exists():
                raise Wrong(f"{file.name}, {name}: {volume} does not exist")


def rules(file: Path) -> None:
    """Alerts have an expression and a summary."""
    found = yaml.safe_load(file.read_text())
    keys(file.name, found, {"groups"}, {"groups"})
    for group in found["groups"]:
        keys(file.name, group, {"name", "rules"}, {"name", "rules"})
        for rule in group["rules"]:
            keys(rule.get("alert", file.name), rule, RULE, {"alert", "expr", "labels", "annotations"})
            if rule["expr"].count("(") != rule["expr"].count(")"):
                raise Wrong(f"{rule['alert']}: unbalanced parentheses")
            keys(rule["alert"], rule["annotations"], {"summary", "description"}, {"summary"})


def dashboard(file: Path) -> None:
    """Panels have unique ids, positions and titles, and at least one query."""
    panels = json.loads(file.read_text())["panels"]
    for key in ("id", "gridPos", "title"):
        if len({json.dumps(panel[key]) for panel in panels}) != len(panels):
            raise Wrong(f"{file.name}: two panels have the same {key}")
    for panel in panels:
        if not all(target["expr"] for target in panel["targets"]):
            raise Wrong(f"{file.name}, {panel['title']}: a query is empty")


def main() -> None:
    deploy = Path(sys.argv[1])
    checks = {"compose.yaml": compose, "prometheus/rules.yaml": rules, "grafana/dashboard.json": dashboard}
    for name, check in checks.items():
        try:
            check(deploy / name)
        except (Wrong, OSError, ValueError, yaml.YAMLError) as error:
            sys.exit(f"error: {error}")
        print(f"{name}: well-formed")


main()
