import pytest

from keras_albert.pretraining import PretrainingConfig, pretrain
from keras_albert.training.run_folder import RunFolder
from tests.pretraining.prepared_texts import write_prepared


@pytest.fixture(scope="session")
def prepared(tmp_path_factory, tiny_proto):
    """A prepared directory of 96 training and 24 held-out examples."""
    return write_prepared(tmp_path_factory.mktemp("data") / "prepared", tiny_proto)


@pytest.fixture(scope="session")
def settings(prepared):
    """Settings of a short run, with everything that an interruption could affect."""
    return {
        "data": str(prepared),
        "size": "tiny",
        "backbone": {
            "num_layers": 2,
            "num_heads": 2,
            "embedding_dim": 8,
            "hidden_dim": 16,
            "intermediate_dim": 32,
            "dropout": 0.1,
            "attention_dropout": 0.1,
        },
        "unroll": True,
        "steps": 60,
        "batch_size": 16,
        "accumulation_steps": 2,
        "learning_rate": 0.01,
        "log_every": 10,
        "evaluate_every": 20,
        "checkpoint_every": 7,
    }


@pytest.fixture(scope="session")
def whole_run(settings, tmp_path_factory):
    """The folder and the scores of an uninterrupted run."""
    output = tmp_path_factory.mktemp("whole") / "run"
    scores = pretrain(PretrainingConfig(output=str(output), **settings), verbose=0)
    return RunFolder(output), scores
