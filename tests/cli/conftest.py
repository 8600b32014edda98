import signal

import pytest

from keras_albert.cli import finetune
from keras_albert.cli.arguments import read_options
from keras_albert.cli.commands import Finetune
from keras_albert.cli.run_command import build_parser


@pytest.fixture
def _hears_ctrl_c():
    """In the background of a shell SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def run(monkeypatch):
    """Run `finetune` with its arguments; without a preset, with a small model."""
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
        parser = build_parser(["finetune"])[1]["finetune"]
        given = vars(parser.parse_args(list(map(str, arguments))))
        return finetune.run(read_options(Finetune, given))

    return run
