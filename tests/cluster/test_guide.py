"""docs/guide.md, followed to the letter: every manifest saved, every command run, every answer as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from cluster.provider import choose
from tests.kube import Kubectl

GUIDE: Final = Path(__file__).parents[2] / "docs" / "guide.md"
NAMESPACE: Final = "guide"
BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE: Final = re.compile(r"# (\S+\.yaml)\n")

Block = tuple[str, str]
"""The word after the fence, and what stands between the fences."""


def blocks(text: str) -> list[Block]:
    return BLOCK.findall(text)


def lines(output: str) -> list[str]:
    """As a person compares them: columns may be wider, and there may be blank space at the end."""
    return [" ".join(line.split()) for line in output.strip().splitlines()]


@pytest.fixture
def environment(admin: Kubectl, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A shell of somebody who has kubectl and a cluster."""
    provider = choose()
    kubeconfig = tmp_path / "kubeconfig"
    shutil.copy(provider.kubeconfig, kubeconfig)
    admin("delete", "namespace", NAMESPACE, "--ignore-not-found")
    yield os.environ | {
        "KUBECONFIG": str(kubeconfig),
        "PATH": f"{Path(provider.kubectl).parent}:{os.environ['PATH']}",
    }
    admin("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false")


def test_the_guide_can_be_followed_to_the_letter(environment: dict[str, str], tmp_path: Path) -> None:
    printed = ""
    for kind, text in blocks(GUIDE.read_text()):
        match kind:
            case "yaml":
                name = FILE.match(text)
                assert name is not None, f"a manifest begins with the name of its file: {text}"
                (tmp_path / name[1]).write_text(text)
            case "sh":
                done = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", text],
                    cwd=tmp_path,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=300,
                )
                assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
                printed = done.stdout
            case "text":
                assert lines(printed) == lines(text)
            case _:
                pytest.fail(f"nobody tests a block of {kind or 'no kind'}: {text}")


def test_every_manifest_of_the_guide_is_applied() -> None:
    found = blocks(GUIDE.read_text())
    names = {match[1] for kind, text in found if kind == "yaml" and (match := FILE.match(text))}
    commands = "".join(text for kind, text in found if kind == "sh")
    assert names == set(re.findall(r"apply -f (\S+)", commands))
