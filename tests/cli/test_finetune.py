import json

import keras
import numpy as np
import pytest
from huggingface_hub import ModelCard

from keras_albert import AlbertClassifier
from keras_albert.training.run_folder import RunFolder
from keras_albert.utils.arguments import ArgumentError
from tests.cli.finetune_runs import training_file

ROWS = [("a fine film", "good"), ("a dull mess", "bad"), ("fine acting", "good")] * 8


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "films.tsv"
    lines = ["text\tlabel", *("\t".join(row) for row in ROWS)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def arguments(file, output, **options):
    options = {"dev": file, "output": output, "epochs": 3, **options}
    options = {"train": training_file(file)} | options
    flags = [(f"--{name.replace('_', '-')}", value) for name, value in options.items()]
    return ["classification", *(part for flag in flags for part in flag)]


def test_writes_a_model_a_report_and_plots(run, file, tmp_path, capsys):
    output = tmp_path / "run"
    run(*arguments(file, output, learning_rate=0.01))
    printed = " ".join(capsys.readouterr().out.split())
    assert "24 rows; text = 'text', label = 'label'; 2 classes: bad, good" in printed
    report = json.loads((output / "report.json").read_text())
    assert len(report["epochs"]) == 3
    assert report["scores"]["accuracy"] > 0.6
    assert np.sum(report["confusion"]["counts"]) == 24
    for name in ("learning_curve.png", "confusion.png"):
        assert (output / name).read_bytes().startswith(b"\x89PNG")
    classifier = AlbertClassifier.from_preset(output / "preset")
    assert classifier.class_names == ("bad", "good")
    texts, labels = zip(*ROWS, strict=True)
    found = [answer["label"] for answer in classifier.classify(list(texts))]
    accuracy = np.mean([a == b for a, b in zip(found, labels, strict=True)])
    assert accuracy == pytest.approx(report["scores"]["accuracy"])
    card = (output / "preset" / "README.md").read_text()
    assert f"| accuracy | {accuracy:.4f} |" in card
    # The plots are beside the card, and no path of this machine is in it.
    for name in ("learning_curve.png", "confusion.png"):
        assert f"]({name})" in card
        assert (output / "preset" / name).is_file()
    assert str(tmp_path) not in card
    metadata = ModelCard(card).data
    assert metadata.pipeline_tag == "text-classification"
    assert metadata.license == "unknown"
    assert "Add to the metadata" in card
    found = {each.metric_name: each.metric_value for each in metadata.eval_results}
    assert found["accuracy"] == pytest.approx(accuracy, abs=1e-4)
    assert metadata.eval_results[0].dataset_name == "films.tsv"
    lines = (output / "curve.csv").read_text().splitlines()
    assert len(lines) == 4
    assert not (output / "training").exists()
    assert not list(output.rglob(".*"))

    with pytest.raises(ValueError, match="the run is finished"):
        run(*arguments(file, output))

    # The next run may start from the result.
    more = {"preset": output / "preset", "recipe": "cola", "epochs": 1}
    more |= {"language": "en", "license": "apache-2.0", "dataset": "user/films"}
    run(*arguments(file, tmp_path / "more", max_length=64, **more))
    card = (tmp_path / "more" / "preset" / "README.md").read_text()
    metadata = ModelCard(card).data
    assert (metadata.language, metadata.license) == ("en", "apache-2.0")
    assert metadata.datasets == ["user/films"]
    assert "- preset: `preset`" in card
    assert "Add to the metadata" not in card


def test_a_column_that_is_missing_is_named_with_its_option(run, file, tmp_path):
    with pytest.raises(ValueError, match=r"no column 'a'.* --text-column"):
        run(*arguments(file, tmp_path / "run", text_column="a"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 2}, "at least 5"),
        ({"max_length": 600, "preset": "albert_tiny_en_uncased"}, "up to 600 tokens"),
    ],
)
def test_a_length_that_does_not_fit_is_named(run, file, tmp_path, options, message):
    with pytest.raises(ArgumentError, match=message) as error:
        run(*arguments(file, tmp_path / "run", **options))
    assert error.value.argument == "max_length"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "start",
    [{}, {"preset": "albert_tiny_en_uncased", "recipe": "sst-2"}],
    ids=["random", "recipe"],
)
def test_numbers_to_compute_with_are_chosen(run, file, tmp_path, start):
    output = tmp_path / "run"
    run(*arguments(file, output, epochs=1, precision="mixed_bfloat16", **start))
    config = json.loads((output / "preset" / "config.json").read_text())["config"]
    assert config["dtype"]["config"]["name"] == "mixed_bfloat16"


def test_two_runs_do_not_write_to_one_output(run, file, tmp_path):
    pytest.importorskip("fcntl")
    output = tmp_path / "run"
    message = "run is in use: another process writes to it. Wait until it has ended"
    with RunFolder(output).locked(), pytest.raises(ValueError, match=message):
        run(*arguments(file, output))


def test_any_name_of_a_class_is_reported(run, tmp_path, capsys):
    names = ["$0_$10", "accuracy", "[/b]", ":cat:"]
    path, output = tmp_path / "names.tsv", tmp_path / "run"
    rows = ["text\tlabel", *(f"a film {name}\t{name}" for name in names * 2)]
    path.write_text("\n".join(rows), encoding="utf-8")
    run(*arguments(path, output, epochs=1))
    report = json.loads((output / "report.json").read_text())
    assert {
        name: row["support"] for name, row in report["classes"].items()
    } == dict.fromkeys(names, 2.0)
    f1 = [row["f1-score"] for row in report["classes"].values()]
    assert report["scores"]["macro F1"] == pytest.approx(np.mean(f1))
    assert (output / "confusion.png").is_file()
    printed = capsys.readouterr().out
    assert all(name in printed for name in names)
    card = (output / "preset" / "README.md").read_text()
    assert "| \\[/b\\] |" in card
    loaded = AlbertClassifier.from_preset(output / "preset")
    assert loaded.class_names == tuple(sorted(names))


@pytest.mark.parametrize(("kind", "count"), [("regression", 1), ("similarity", 3)])
def test_equal_scores_have_no_correlation(run, tmp_path, kind, count):
    train, dev, output = (tmp_path / name for name in ("a.tsv", "b.tsv", "run"))
    head = ["text\ttext_pair\tscore"]
    rows = [f"a film\tfilm {n}\t{n / 8}" for n in range(8)]
    train.write_text("\n".join(head + rows), encoding="utf-8")
    dev.write_text("\n".join(head + rows[3:4] * count), encoding="utf-8")
    run(kind, "--train", train, "--dev", dev, "--output", output, "--epochs", 1)
    text = (output / "report.json").read_text()
    assert "NaN" not in text
    assert set(json.loads(text)["scores"]) <= {"RMSE"}
    assert (output / "preset").is_dir()


def test_regression_of_pairs(run, tmp_path):
    path = tmp_path / "pairs.jsonl"
    rows = [
        {"sentence1": "a film", "sentence2": "a " + "film " * n, "score": n / 2}
        for n in range(8)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    output = tmp_path / "run"
    run(
        "regression",
        *("--train", training_file(path), "--dev", path, "--output", output),
        *("--epochs", 1),
    )
    scores = json.loads((output / "report.json").read_text())["scores"]
    assert set(scores) == {"RMSE", "Pearson", "Spearman"}


def test_a_loss_that_is_not_finite_saves_nothing(run, tmp_path):
    path, output = tmp_path / "a.tsv", tmp_path / "run"
    path.write_text("text\tlabel\na fine film\t1\na dull mess\t2\n")
    flags = ("--train", training_file(path), "--dev", path, "--output", output)
    # The loss of the only step is that of the first weights.
    with pytest.raises(
        FloatingPointError, match=r"val_loss is .*Start again with a low"
    ):
        run("regression", *flags, "--epochs", 1, "--learning-rate", "1e30")
    assert not (output / "preset").exists()
    assert not (output / "report.json").exists()


def test_a_linear_head(run, file, tmp_path, capsys):
    other = tmp_path / "other.tsv"
    other.write_text(file.read_text(encoding="utf-8").replace("bad", "awful"))
    run(*arguments(other, tmp_path / "first", epochs=1))

    def begin(output, **options):
        preset = tmp_path / "first" / "preset"
        given = arguments(file, tmp_path / output, preset=preset, **options)
        del given[(at := given.index("--epochs")) : at + 2]
        return given

    capsys.readouterr()
    run(*begin("chosen"))
    assert "method='linear', since labels are few" in capsys.readouterr().out
    report = json.loads((tmp_path / "chosen" / "report.json").read_text())
    assert report["settings"]["method"] == "linear"
    few = tmp_path / "few.tsv"
    few.write_text("text\tlabel\na fine film\tgood\na dull mess\tbad\n")
    # One of two labels of a text is an error.
    both = tmp_path / "both.tsv"
    both.write_text("text\tlabel\na fine film\tgood\na fine film\tbad\n")
    run(*begin("one", train=few, dev=both, max_length=8))
    assert "method='linear'" not in capsys.readouterr().out
    assert len((tmp_path / "one" / "curve.csv").read_text().splitlines()) == 4
    (error,) = json.loads((tmp_path / "one" / "report.json").read_text())["errors"]
    assert "both.tsv, line " in error
    assert error.splitlines()[-1].startswith("  because of '")

    given = begin("linear", method="linear")
    run(*given)
    printed = capsys.readouterr().out
    assert "method='linear': loss=" in printed
    output = tmp_path / "linear"
    report = json.loads((output / "report.json").read_text())
    assert len(report["epochs"]) == 1
    row = report["epochs"][0]
    assert row["val_accuracy"] == pytest.approx(report["scores"]["accuracy"])
    assert {"folds_accuracy", "C", "accuracy"} < row.keys()
    assert (output / "learning_curve.png").is_file()
    card = (output / "preset" / "README.md").read_text()
    assert "which had no part in the training" in card
    assert "- method: `linear`" in card
    loaded = AlbertClassifier.from_preset(output / "preset")
    found = loaded.evaluate(
        [row[0] for row in ROWS], [row[1] for row in ROWS], verbose=0, return_dict=True
    )
    assert found["accuracy"] == pytest.approx(row["val_accuracy"])
    with pytest.raises(ValueError, match="the run is finished"):
        run(*given)


def test_a_preset_with_the_same_labels_keeps_its_head(run, file, tmp_path, capsys):
    def kernel(path):
        head = AlbertClassifier.from_preset(path).output_dense
        return keras.ops.convert_to_numpy(head.kernel)

    first = tmp_path / "first"
    run(*arguments(file, first, learning_rate=0.02))
    options = {"preset": first / "preset", "epochs": 1, "learning_rate": 1e-6}
    run(*arguments(file, tmp_path / "second", **options))
    assert "continuing with the head of" in capsys.readouterr().out
    kernels = [kernel(path / "preset") for path in (first, tmp_path / "second")]
    np.testing.assert_allclose(*kernels, atol=1e-4)

    other = tmp_path / "others.tsv"
    other.write_text(file.read_text(encoding="utf-8").replace("bad", "awful"))
    run(*arguments(other, tmp_path / "third", **options))
    assert "continuing" not in capsys.readouterr().out
    assert not np.allclose(kernel(tmp_path / "third" / "preset"), kernels[0], atol=1e-2)

    @keras.saving.register_keras_serializable(package="mine")
    class Own(AlbertClassifier):
        pass

    labels = ["bad", "good"]
    own = Own.from_preset(first / "preset", labels=labels)
    own.save_to_preset(tmp_path / "own")
    run(*arguments(file, tmp_path / "fourth", **options | {"preset": tmp_path / "own"}))
    assert "continuing" not in capsys.readouterr().out
