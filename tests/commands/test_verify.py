"""`keras-albert verify` prints signatures, example requests and the comparison."""

from pathlib import Path

from keras_albert.commands import convert as command
from keras_albert.serving.verification import Signature, TensorSpec, VerifiedModel
from keras_albert_cli.run_command import run_command

TEXT = TensorSpec("string", (None,))
SCORES = TensorSpec("float32", (None, 2))
REST = """curl -d '{"instances": ["a great film"]}'"""
GRPC = 'inputs { key: "text" }'


def test_what_is_printed(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    directory = Path("served/films/3")
    directory.mkdir(parents=True)
    asked = []

    def verify(path, python):
        asked.append((path, python))
        return VerifiedModel(
            directory=directory,
            signatures={
                "serving_default": Signature({"text": TEXT}, {"probabilities": SCORES})
            },
            operations=frozenset({"MatMul", "Softmax"}),
            requests=4,
            largest_difference=2.5e-7,
            rest={"serving_default": REST},
            grpc={"serving_default": GRPC},
        )

    monkeypatch.setattr(command, "verify", verify)
    arguments = ["verify", "served/films", "--python", "other/bin/python"]
    assert run_command(arguments) == 0
    assert asked == [(Path("served/films"), "other/bin/python")]
    printed = capsys.readouterr().out
    for part in ("serving_default", "string", "(?, 2)", "films:predict", REST, GRPC):
        assert part in printed
    words = " ".join(printed.split())
    assert "2 operations" in words
    assert "4 warm-up requests answered, the largest difference 2.5e-07" in words
