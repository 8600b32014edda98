"""A preset's backbone under another head."""

import re

import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertClassifier, AlbertTokenClassifier


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"num_classes": 3}, ("0", "1", "2")),
        ({"labels": ["low", "middle", "high"]}, ("low", "middle", "high")),
        ({"num_classes": 1}, ("0",)),
    ],
)
def test_other_classes_get_a_new_head_on_the_same_backbone(
    make_classifier, tmp_path, arguments, names
):
    saved = make_classifier(labels=["bad", "good"])
    saved.save_to_preset(tmp_path / "preset")
    loaded = AlbertClassifier.from_preset(tmp_path / "preset", **arguments)
    assert loaded.class_names == names
    assert loaded.predict(["a text"], verbose=0).shape == (1, len(names))
    for ours, theirs in zip(
        loaded.backbone.weights, saved.backbone.weights, strict=True
    ):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


def test_without_arguments_the_head_is_the_preset_s_own(make_classifier, tmp_path):
    saved = make_classifier(labels=["bad", "good"])
    saved.save_to_preset(tmp_path / "preset")
    loaded = AlbertClassifier.from_preset(tmp_path / "preset")
    assert loaded.class_names == ("bad", "good")
    np.testing.assert_allclose(
        loaded.predict(["a text"], verbose=0),
        saved.predict(["a text"], verbose=0),
        atol=1e-5,
    )


@pytest.mark.parametrize("task", [AlbertClassifier, AlbertTokenClassifier])
@pytest.mark.parametrize("theirs", [None, "transformers", "keras_hub"])
def test_without_classes_the_files_are_not_blamed(
    make_classifier, tmp_path, task, theirs, monkeypatch
):
    preset = tmp_path / "preset"
    backbone = make_classifier().backbone
    if theirs is None:
        backbone.save_to_preset(preset)
        make_classifier().preprocessor.save_to_preset(preset)
    else:
        getattr(backbone, f"export_to_{theirs}")(
            preset, make_classifier().preprocessor.tokenizer
        )
    # No weights are read before.
    monkeypatch.setattr(AlbertBackbone, "load_weights", None)
    message = (
        r"^The number of classes is not known\. Pass num_classes=2, say, or labels=\[.*"
        rf"\. {re.escape(str(preset))} has no head of this task\.$"
    )
    with pytest.raises(ValueError, match=message):
        task.from_preset(preset)
