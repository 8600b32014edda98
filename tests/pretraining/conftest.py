import pytest

from tests.pretraining.prepared_texts import write_prepared


@pytest.fixture(scope="session")
def prepared(tmp_path_factory, tiny_proto):
    """A prepared directory of 96 training and 24 held-out examples."""
    return write_prepared(tmp_path_factory.mktemp("data") / "prepared", tiny_proto)


@pytest.fixture
def settings(prepared, tmp_path):
    """Settings of a run of a few seconds, with everything that could differ."""
    return {
        "data": str(prepared),
        "output": str(tmp_path / "run"),
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
        "steps": 40,
        "batch_size": 8,
        "learning_rate": 0.01,
        "log_every": 10,
        "evaluate_every": 20,
        "checkpoint_every": 7,
    }
