import argparse

import pytest

from keras_albert.commands import finetune
from keras_albert_cli.options import build_parser


@pytest.fixture
def run(monkeypatch):
    """Run the command with its arguments; without a preset, with a small model."""
    monkeypatch.setattr(
        finetune,
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
        _, parsers = build_parser()
        given = vars(parsers["finetune"].parse_args(list(map(str, arguments))))
        for name in ("debug", "verbose"):
            del given[name]
        return finetune.run(argparse.Namespace(**given))

    return run
