import json

import keras
import numpy as np
import pytest
from huggingface_hub import ModelCard

from keras_albert import AlbertClassifier, AlbertMaskedLM, AlbertPretrainer
from keras_albert.pretraining import PretrainingConfig, PretrainingData, pretrain
from keras_albert.pretraining.dataset import EVALUATION_MASKS, HeldOut
from keras_albert.pretraining.model import build_pretrainer, compile_pretrainer
from keras_albert.text import train_vocabulary
from keras_albert.training.run_folder import RunFolder
from tests.one_backend import on_one_backend_except
from tests.pretraining.prepared_texts import write_prepared
from tests.pretraining.same_run import curve

pytestmark = on_one_backend_except(
    "test_learns_and_leaves_a_model_with_its_story",
    "test_what_it_leaves_loads_as_any_task",
    "test_other_ways_to_train[changed0]",
    "test_the_loss_is_the_mean_over_masked_tokens_plus_that_over_pairs",
)


def test_learns_and_leaves_a_model_with_its_story(whole_run, settings):
    folder, scores = whole_run
    rows = curve(folder)
    assert [row["step"] for row in rows] == [10, 20, 30, 40, 50, 60]
    assert [row["step"] for row in rows if "val_loss" in row] == [20, 40, 60]
    assert rows[-1]["loss"] < rows[0]["loss"] - 0.5
    assert rows[-1]["learning_rate"] == 0
    report = json.loads((folder.path / "report.json").read_text())
    best = min(row["val_loss"] for row in rows if "val_loss" in row)
    assert report["scores"]["loss"] == pytest.approx(best, rel=1e-5)
    assert report["scores"] == scores
    assert set(report["baselines"]) == {"masked_lm_accuracy", "sentence_order_accuracy"}
    assert report["settings"]["steps"] == settings["steps"]
    data = PretrainingData(settings["data"])
    per_example = min(data.sequence_length, data.num_tokens / len(data) + 3)
    read = report["cost"]["tokens read"]
    assert read == pytest.approx(60 * settings["batch_size"] * per_example, rel=1e-3)
    assert all(row["seconds"] > 0 for row in folder.curve.rows())
    table = (folder.path / "curve.csv").read_text().splitlines()
    assert len(table) == 1 + len(rows)
    assert (folder.preset / "curve.png").read_bytes().startswith(b"\x89PNG")
    card = (folder.preset / "README.md").read_text()
    accuracy = scores["masked_lm_accuracy"]
    baseline = report["baselines"]["masked_lm_accuracy"]
    assert f"| masked lm accuracy | {accuracy:.4f} | {baseline:.4f} |" in card
    assert "](curve.png)" in card
    assert f"- tokens read: `{read}`" in card
    metadata = ModelCard(card).data
    assert metadata.pipeline_tag == "fill-mask"
    assert metadata.license == "unknown"
    found = {each.metric_name: each.metric_value for each in metadata.eval_results}
    assert found["masked lm accuracy"] == pytest.approx(accuracy, abs=1e-4)
    assert not list(folder.path.rglob(".*"))

    with pytest.raises(ValueError, match="the run is finished"):
        pretrain(PretrainingConfig(output=str(folder.path), **settings))


def test_two_runs_do_not_write_to_one_output(settings, tmp_path):
    pytest.importorskip("fcntl")
    message = "run is in use: another process writes to it. Wait until it has ended"
    with RunFolder(tmp_path / "run").locked(), pytest.raises(ValueError, match=message):
        pretrain(PretrainingConfig(output=str(tmp_path / "run"), **settings))


def test_what_it_leaves_loads_as_any_task(whole_run, prepared):
    folder, scores = whole_run
    pretrainer = AlbertPretrainer.from_preset(folder.preset)
    # The best weights reproduce the reported losses on the same data.
    data = PretrainingData(prepared, "held_out", rates=EVALUATION_MASKS)
    held_out = HeldOut.read(data, 99, 8, None)
    x, y, weights = (keras.tree.map_structure(np.asarray, e) for e in held_out.arrays)
    outputs = keras.Model.predict(pretrainer, x, verbose=0)
    logits = outputs["masked_lm"] - outputs["masked_lm"].max(-1, keepdims=True)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    losses = -np.take_along_axis(log_p, y["masked_lm"][..., None], -1)[..., 0]
    mean = losses[weights["masked_lm"] > 0].mean()
    assert mean == pytest.approx(scores["masked_lm_loss"], rel=1e-4)
    assert 0 < pretrainer.score_order("In 2011", "it rained") < 1
    masked_lm = AlbertMaskedLM.from_preset(folder.preset)
    assert len(masked_lm.fill_mask("It [MASK] in 2011")) == 5
    classifier = AlbertClassifier.from_preset(folder.preset, num_classes=2)
    assert classifier.backbone.max_sequence_length == 24
    assert classifier.backbone.dtype_policy.name == "float32"


def test_goes_on_from_a_preset(whole_run, settings, tmp_path):
    folder, scores = whole_run
    # Layers share their weights: a model with more of them can start from the preset.
    going_on = settings | {
        "preset": str(folder.preset),
        "backbone": {"num_layers": 3},
        "steps": 1,
        "learning_rate": 1e-9,
        "checkpoint_every": 1,
    }
    pretrain(PretrainingConfig(output=str(tmp_path / "more"), **going_on), verbose=0)
    before = AlbertPretrainer.from_preset(folder.preset)
    after = AlbertPretrainer.from_preset(tmp_path / "more" / "preset")
    assert (before.backbone.num_layers, after.backbone.num_layers) == (2, 3)
    for old, new in zip(before.get_weights(), after.get_weights(), strict=True):
        np.testing.assert_allclose(new, old, atol=1e-6)
    same = going_on | {"backbone": {}, "output": str(tmp_path / "same")}
    again = pretrain(PretrainingConfig(**same), verbose=0)
    assert again["loss"] == pytest.approx(scores["loss"], rel=1e-4)
    # The card of a model that started from a preset does not name `size`.
    before, after = (
        (place / "preset" / "README.md").read_text()
        for place in (folder.path, tmp_path / "same")
    )
    assert "- size: `tiny`" in before
    assert "- size:" not in after


def test_more_positions_are_those_of_the_preset(whole_run, settings, tmp_path):
    folder, _ = whole_run
    longer = settings | {
        "preset": str(folder.preset),
        "output": str(tmp_path / "run"),
        "backbone": {"max_sequence_length": 54},
        "steps": 1,
        "learning_rate": 1e-9,
    }
    pretrain(PretrainingConfig(**longer), verbose=0)
    before = AlbertPretrainer.from_preset(folder.preset).backbone
    after = AlbertPretrainer.from_preset(tmp_path / "run" / "preset").backbone
    assert after.max_sequence_length == 54
    old, new = (
        keras.ops.convert_to_numpy(model.embedding.position_embedding.weights[0])
        for model in (before, after)
    )
    np.testing.assert_allclose(new, np.concatenate([old, old, old[:6]]), atol=1e-6)
    ids = {
        "token_ids": np.arange(5, 25)[None],
        "segment_ids": np.zeros((1, 20), "int32"),
        "padding_mask": np.ones((1, 20), "int32"),
    }
    np.testing.assert_allclose(
        after.predict(ids, verbose=0)["sequence_output"],
        before.predict(ids, verbose=0)["sequence_output"],
        atol=1e-5,
    )


def test_what_does_not_fit_the_preset_is_said(whole_run, settings, tmp_path):
    folder, _ = whole_run
    going_on = settings | {"preset": str(folder.preset), "output": str(tmp_path / "x")}
    wider = PretrainingConfig(**going_on | {"backbone": {"intermediate_dim": 64}})
    message = r"The weights of .* have different shapes: .* Leave out"
    with pytest.raises(ValueError, match=message):
        pretrain(wider, verbose=0)
    texts = [" ".join(f"{n * n * n:x}" for n in range(k, k + 50)) for k in range(500)]
    other = train_vocabulary(texts, vocabulary_size=130)
    data = write_prepared(tmp_path / "data", other)
    changed = PretrainingConfig(**going_on | {"data": str(data)})
    with pytest.raises(ValueError, match=r"different vocabulary from the data\. Prep"):
        pretrain(changed, verbose=0)
    assert not (tmp_path / "x").exists()


def test_parts_of_a_batch_come_to_the_same(settings, tmp_path):
    # Without dropout, which differs from part to part.
    backbone = settings["backbone"] | {"dropout": 0.0, "attention_dropout": 0.0}
    shared = settings | {"backbone": backbone, "steps": 20, "clip_norm": 0.1}
    curves = []
    for parts in (1, 2):
        changed = {"accumulation_steps": parts, "output": str(tmp_path / str(parts))}
        pretrain(PretrainingConfig(**shared | changed), verbose=0)
        curves.append(curve(RunFolder(tmp_path / str(parts))))
    for one, two in zip(*curves, strict=True):
        assert one["learning_rate"] == pytest.approx(two["learning_rate"])
        for name in ("loss", "masked_lm_loss", "sentence_order_accuracy"):
            assert one[name] == pytest.approx(two[name], rel=1e-4)
    assert curves[0][-1]["val_loss"] == pytest.approx(curves[1][-1]["val_loss"], 1e-4)


LAMB = {"optimizer": "lamb", "sequence_length": 16, "precision": "mixed_bfloat16"}


@pytest.mark.parametrize(
    "changed",
    [
        {"second_task": "none", "precision": "mixed_float16", "remat": True},
        {"second_task": "next_sentence", **LAMB},
    ],
)
def test_other_ways_to_train(settings, tmp_path, changed):
    shared = settings | {
        "steps": 15,
        "evaluate_every": 10,
        "accumulation_steps": 1,
        "output": str(tmp_path / "run"),
    }
    scores = pretrain(PretrainingConfig(**shared | changed), verbose=0)
    rows = curve(RunFolder(tmp_path / "run"))
    # The last row has the remaining steps.
    assert [row["step"] for row in rows] == [10, 15]
    assert rows[1]["masked_lm_accuracy"] <= 1
    assert rows[1]["loss"] < rows[0]["loss"]
    names = {"loss", "masked_lm_accuracy"}
    has_order = changed["second_task"] != "none"
    assert names <= set(scores)
    assert ("sentence_order_accuracy" in scores) == has_order
    cls = AlbertPretrainer if has_order else AlbertMaskedLM
    loaded = cls.from_preset(tmp_path / "run" / "preset")
    assert {weight.dtype for weight in loaded.weights} == {"float32"}


def test_the_loss_is_the_mean_over_masked_tokens_plus_that_over_pairs(settings):
    config = PretrainingConfig(**settings | {"output": "-", "accumulation_steps": 1})
    data = PretrainingData(config.data)
    task = build_pretrainer(config, data.tokenizer, data.sequence_length)
    compile_pretrainer(task, config)
    x, y, weights = data.batches(16).batch(3)
    found = keras.Model.evaluate(
        task, x, y, sample_weight=weights, batch_size=16, verbose=0, return_dict=True
    )
    outputs = keras.Model.predict(task, x, batch_size=16, verbose=0)
    entropy = keras.ops.sparse_categorical_crossentropy
    for name, scores in outputs.items():
        losses = np.asarray(
            keras.ops.convert_to_numpy(entropy(y[name], scores, from_logits=True))
        )
        mean = losses[np.asarray(weights[name]) > 0].mean()
        assert found[f"{name}_loss"] == pytest.approx(mean, rel=1e-4)
