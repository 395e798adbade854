"""What can be said about the chart without Helm."""

import json
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts/taskyard"


def test_chart_operator_and_image_have_one_version() -> None:
    """The tag of the image defaults to `appVersion`, so that is the version of the package in the image."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    package = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert chart["version"] == chart["appVersion"] == package["version"]


def test_the_schema_knows_exactly_the_values_that_have_defaults() -> None:
    """A value that only one of the two knows is either refused when set, or never documented."""

    def unmatched(values: dict[str, Any], schema: dict[str, Any], path: str) -> list[str]:
        if schema.get("additionalProperties") is not False:
            return []  # free-form: labels, quantities, affinity
        known = schema["properties"].keys() - {"global"}
        differing = [f"{path}.{name}" for name in sorted(known ^ values.keys())]
        below = [
            found
            for name in sorted(known & values.keys())
            for found in unmatched(values[name], schema["properties"][name], f"{path}.{name}")
        ]
        return differing + below

    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert unmatched(values, schema, "") == []
