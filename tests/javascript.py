"""Running JavaScript with transformers.js, which `nox -s tests` installs."""

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NODE = ROOT / "build" / "node"


def run_in_node(program, **given):
    """Run a program that has `given`, and return what it passes to `answer`."""
    if not (NODE / "node_modules" / "@huggingface" / "transformers").is_dir():
        pytest.skip("no transformers.js in build/node: `nox -s tests` installs it")
    head = """
        import { readFileSync } from "node:fs";
        const given = JSON.parse(readFileSync(0, "utf-8"));
        const answer = (found) => console.log(JSON.stringify(found));
    """
    found = subprocess.run(
        ["node", "--input-type=module", "--eval", head + program],
        input=json.dumps(given),
        cwd=NODE,
        capture_output=True,
        check=False,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)
