"""Checks the structure of files in deploy/ for which the program that reads them need not be here."""

import json
import sys
from pathlib import Path

import yaml

# The keys of services that deploy/compose.yaml may have: a misspelt one is no error of YAML.
SERVICE = {
    "cap_drop", "command", "depends_on", "environment", "healthcheck", "image", "init", "mem_limit",
    "ports", "read_only", "restart", "security_opt", "stop_grace_period", "tmpfs", "user", "volumes",
}  # fmt: skip
RULE = {"alert", "annotations", "expr", "for", "labels"}


class Wrong(Exception):
    """Something in a file is not as it has to be."""


def keys(where: str, found: dict, known: set[str], needed: set[str] = frozenset()) -> None:
    """Refuses keys that are not known, and the lack of those that are needed."""
    if unknown := set(found) - known:
        raise Wrong(f"{where}: unknown {', '.join(sorted(unknown))}")
    if missing := needed - set(found):
        raise Wrong(f"{where}: no {', '.join(sorted(missing))}")


def compose(file: Path) -> None:
    """Services have known keys, and what they depend on is there."""
    found = yaml.safe_load(file.read_text())
    keys(file.name, found, {"name", "services", "x-workbench"}, {"services"})
    for name, service in found["services"].items():
        keys(f"{file.name}, {name}", service, SERVICE, {"image", "command"})
        if missing := set(service.get("depends_on", [])) - set(found["services"]):
            raise Wrong(f"{file.name}, {name}: depends on {', '.join(missing)}")
        for volume in service.get("volumes", []):
            if not (file.parent / volume.split(":")[0]).exists():
                raise Wrong(f"{file.name}, {name}: there is no {volume}")


def rules(file: Path) -> None:
    """Alerts have an expression each, and say what is the matter."""
    found = yaml.safe_load(file.read_text())
    keys(file.name, found, {"groups"}, {"groups"})
    for group in found["groups"]:
        keys(file.name, group, {"name", "rules"}, {"name", "rules"})
        for rule in group["rules"]:
            keys(rule.get("alert", file.name), rule, RULE, {"alert", "expr", "labels", "annotations"})
            if rule["expr"].count("(") != rule["expr"].count(")"):
                raise Wrong(f"{rule['alert']}: parentheses")
            keys(rule["alert"], rule["annotations"], {"summary", "description"}, {"summary"})


def dashboard(file: Path) -> None:
    """Panels have ids and places of their own, and ask for something."""
    panels = json.loads(file.read_text())["panels"]
    for key in ("id", "gridPos", "title"):
        if len({json.dumps(panel[key]) for panel in panels}) != len(panels):
            raise Wrong(f"{file.name}: two panels have the same {key}")
    for panel in panels:
        if not all(target["expr"] for target in panel["targets"]):
            raise Wrong(f"{file.name}, {panel['title']}: asks for nothing")


def main() -> None:
    """Checks all of them."""
    deploy = Path(sys.argv[1])
    checks = {"compose.yaml": compose, "prometheus/rules.yaml": rules, "grafana/dashboard.json": dashboard}
    for name, check in checks.items():
        try:
            check(deploy / name)
        except (Wrong, OSError, ValueError, yaml.YAMLError) as error:
            sys.exit(f"error: {error}")
        print(f"{name}: well-formed")


main()
