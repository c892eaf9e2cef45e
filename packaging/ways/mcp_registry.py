"""The MCP registry: `server.json`, which lists the packages."""

import json
from pathlib import Path

from ways import archive
from ways.project import PACKAGING, PROGRAM, PYPI_NAME, VERSION, Executable, Trial, run, template
from ways.tools import python_tool

SCHEMA = PACKAGING / "mcp-registry" / "server.schema.json"

# Clients ask the user for this argument with every kind of package.
CONFIG = {
    "type": "named",
    "name": "--config",
    "description": "Your configuration file; `mcp-workbench import` creates one",
    "format": "filepath",
    "isRequired": True,
}


def make(bundles: list[Path], image: str | None, to: Path) -> list[Path]:
    """Writes `server.json` for npm, PyPI, the bundles, and the container image if it is published."""
    to.mkdir(parents=True)
    common = {"transport": {"type": "stdio"}, "packageArguments": [CONFIG]}
    packages = [
        {"registryType": "npm", "identifier": PROGRAM, "version": VERSION, "runtimeHint": "npx"},
        {"registryType": "pypi", "identifier": PYPI_NAME, "version": VERSION, "runtimeHint": "uvx"},
    ]
    if image:
        mounted = {"type": "named", "name": "--volume", "value": "{folder}:/config:ro"}
        folder = {"description": "Folder with your workbench-config.json", "isRequired": True}
        packages.append(
            {
                "registryType": "oci",
                "identifier": f"{image}:{VERSION}",
                "runtimeHint": "docker",
                "runtimeArguments": [{**mounted, "variables": {"folder": folder}}],
                "transport": {"type": "stdio"},
                "packageArguments": [],
            }
        )
    for bundle in bundles:
        place = {"identifier": archive.address(bundle.name), "version": VERSION}
        packages.append(
            {"registryType": "mcpb", **place, "fileSha256": archive.checksum(bundle)}
            # The bundle's own manifest asks for the configuration.
            | {"transport": {"type": "stdio"}, "packageArguments": []}
        )
    server = json.loads(template("mcp-registry/server.json"))
    server["packages"] = [{**common, **package} for package in packages]
    path = to / "server.json"
    path.write_text(json.dumps(server, indent=2) + "\n")
    return [path]


def trial(made: list[Path], _: Executable, __: Path) -> list[Trial]:
    """Validates the file against the registry's schema."""
    run([python_tool("check-jsonschema"), "--schemafile", SCHEMA, made[0]])
    note = "validated against the registry's schema"
    return [Trial("MCP registry", "server.json", made[0].stat().st_size, note=note)]
