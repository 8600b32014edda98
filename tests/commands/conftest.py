import argparse

import pytest

from keras_albert.commands.finetune import build as finetune_build
from keras_albert.commands.finetune import command as finetune


@pytest.fixture
def run(monkeypatch):
    """Run the command with its arguments; without a preset, with a small model."""
    monkeypatch.setattr(
        finetune_build,
        "SMALL",
        {
            "num_layers": 1,
            "num_heads": 2,
            "embedding_dim": 16,
            "hidden_dim": 32,
            "intermediate_dim": 64,
        },
    )

    def run(*arguments):
        parser = argparse.ArgumentParser()
        finetune.add_parser(parser.add_subparsers())
        read = parser.parse_args(["finetune", *map(str, arguments)])
        return read.run(read)

    return run
