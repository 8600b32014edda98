import pytest

from keras_albert.cli.run_command import run_command as main
from tests.pretraining.prepared_texts import write_prepared


@pytest.fixture
def arguments(tmp_path, tiny_proto):
    path = tmp_path / "run.toml"
    path.write_text("log_every = 5\nevaluate_every = 5\nsteps = 20\nunroll = true\n")
    data = write_prepared(tmp_path / "prepared", tiny_proto)
    sizes = {"num_layers": 1, "num_heads": 1, "embedding_dim": 4, "hidden_dim": 4}
    return [
        "pretrain",
        *("--config", str(path), "--data", str(data)),
        *("--output", str(tmp_path / "run"), "--steps", "10", "--batch-size", "8"),
        *("--backbone", *(f"{name}={size}" for name, size in sizes.items())),
        "intermediate_dim=8",
    ]


def test_runs_from_a_file_and_flags_and_says_how_good_it_is(
    arguments, tmp_path, capsys
):
    assert main(arguments) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Epoch 2/2" in printed
    assert "tokens/s" in printed
    assert "baseline" in printed
    assert (tmp_path / "run" / "preset" / "README.md").is_file()

    assert main(arguments) == 1
    assert "the run is finished" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--steps", "0"], "--steps: `steps` must be a whole number, at least 1"),
        (["--backbone", "num_layers=1000000000"], "`num_layers` must be at most 1000"),
        (["--data", "nowhere"], "nowhere contains no metadata.json"),
    ],
)
def test_says_what_is_wrong(arguments, capsys, flags, message):
    assert main([*arguments, *flags]) == 1
    assert message in capsys.readouterr().err


def test_what_is_missing_is_named(tmp_path, capsys):
    assert main(["pretrain", "--output", str(tmp_path / "run")]) == 1
    assert "Missing directories: `data`" in capsys.readouterr().err


def test_backbone_takes_pairs(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*arguments, "--backbone", "num_layers"])
    assert "takes NAME=VALUE. Received: 'num_layers'" in capsys.readouterr().err
