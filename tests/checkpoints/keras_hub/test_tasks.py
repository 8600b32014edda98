"""KerasHub's task classes with their heads, from KerasHub and to it."""

import importlib.util
import warnings

import keras
import keras_hub
import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertClassifier, AlbertTokenizer, tasks
from keras_albert.checkpoints import export_checkpoint
from keras_albert.presets.checkpoint import open_checkpoint
from tests.foreign_models import TINY, assert_computes_as
from tests.one_backend import on_one_backend_except
from tests.programs import run_python
from tests.random_weights import fill_weights

pytestmark = on_one_backend_except("test_a_class_is_the_same_on_both_sides")

SIZES = TINY | {"num_layers": 2, "vocabulary_size": 130}
CLASSIFIER = {"num_classes": 3, "dropout": 0.3, "activation": "softmax"}


@pytest.fixture(scope="module")
def presets(tmp_path_factory):
    """Presets written by KerasHub."""
    folder = tmp_path_factory.mktemp("keras_hub")
    arguments = SIZES | {"num_groups": 2, "num_inner_repetitions": 2}
    for cls, options in (
        (keras_hub.models.AlbertTextClassifier, CLASSIFIER),
        (keras_hub.models.AlbertMaskedLM, {}),
    ):
        theirs = cls(keras_hub.models.AlbertBackbone(**arguments), **options)
        fill_weights(theirs)
        theirs.save_to_preset(str(folder / cls.__name__))
    return folder


OURS = {"AlbertTextClassifier": "AlbertClassifier", "AlbertMaskedLM": "AlbertMaskedLM"}


@pytest.mark.parametrize("name", OURS)
def test_a_class_is_the_same_on_both_sides(presets, tmp_path, name):
    directory = presets / name
    assert open_checkpoint(directory).task_name() == OURS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        task = getattr(tasks, OURS[name]).from_preset(directory, preprocessor=None)
        export_checkpoint(task, tmp_path / "theirs", "keras-hub")
    for place in (directory, tmp_path / "theirs"):
        assert_computes_as(task, place, "keras-hub")
    if name == "AlbertTextClassifier":
        config = task.get_config()
        assert {key: config[key] for key in CLASSIFIER} == CLASSIFIER


def test_a_head_of_another_kind_is_new_and_a_warning_says_so(presets):
    # NumPy's warnings of Keras' variables stay ignored.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        AlbertClassifier.from_preset(
            presets / "AlbertMaskedLM", preprocessor=None, num_classes=2
        )
    (said,) = [str(warning.message) for warning in caught]
    assert "has no weights for logits," in said


def test_a_truncated_head_is_refused(presets, tmp_path):
    for path in (presets / "AlbertTextClassifier").iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    path = tmp_path / "task.weights.h5"
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(ValueError, match=r"task\.weights\.h5 .* is damaged"):
        AlbertClassifier.from_preset(tmp_path, preprocessor=None)
    path.unlink()
    with pytest.raises(ValueError, match=r"task\.weights\.h5 is missing"):
        AlbertClassifier.from_preset(tmp_path, preprocessor=None)


def test_a_task_that_keras_hub_has_not_is_refused(tmp_path):
    task = tasks.AlbertMultipleChoice(AlbertBackbone(**(SIZES | {"num_layers": 1})))
    with pytest.raises(ValueError, match="KerasHub has no model with the head"):
        export_checkpoint(task, tmp_path / "theirs", "keras-hub")
    assert not list(tmp_path.iterdir())


def test_their_head_has_one_epsilon(tmp_path):
    task = tasks.AlbertMaskedLM(AlbertBackbone(**(SIZES | {"num_layers": 1})))
    export_checkpoint(task, tmp_path / "theirs", "keras-hub")
    again = tasks.AlbertMaskedLM.from_preset(tmp_path / "theirs", preprocessor=None)
    assert again.head_layer_norm_epsilon == 1e-5
    with pytest.raises(ValueError, match="layer_norm_epsilon=1e-05, only"):
        again.export_to_transformers(tmp_path / "no")
    assert not (tmp_path / "no").exists()


_PROGRAM = """
import sys
import keras_hub
import numpy as np
folder, = sys.argv[1:]
text = "In 2011 the CAFÉ opened again"
backbone = keras_hub.models.AlbertBackbone.from_preset(f"{folder}/backbone")
tokenizer = keras_hub.tokenizers.AlbertTokenizer.from_preset(f"{folder}/backbone")
classifier = keras_hub.models.TextClassifier.from_preset(f"{folder}/classifier")
assert type(classifier).__module__.startswith("keras_hub.")
assert not [name for name in sys.modules if name.startswith("keras_albert")]
print(list(map(int, tokenizer(text))))
print(classifier.predict([text], verbose=0).ravel().tolist())
"""


@pytest.mark.skipif(
    not any(map(importlib.util.find_spec, ("grain", "tensorflow"))),
    reason="KerasHub preprocesses with one of them",
)
def test_keras_hub_loads_them_without_this_package(tiny_proto, tmp_path):
    tokenizer = AlbertTokenizer(tiny_proto)
    backbone = AlbertBackbone(**(SIZES | {"max_sequence_length": 24}))
    fill_weights(backbone)
    export_checkpoint(backbone, tmp_path / "backbone", "keras-hub", tokenizer)
    preprocessor = AlbertClassifier.preprocessor_cls(tokenizer, max_sequence_length=24)
    classifier = AlbertClassifier(backbone, 2, preprocessor=preprocessor)
    export_checkpoint(classifier, tmp_path / "classifier", "keras-hub")
    variables = {"KERAS_BACKEND": keras.config.backend()}
    printed = run_python("-c", _PROGRAM, tmp_path, **variables)
    ids, scores = printed.splitlines()[-2:]
    text = "In 2011 the CAFÉ opened again"
    assert ids == str(list(map(int, tokenizer(text))))
    np.testing.assert_allclose(
        np.array(eval(scores)),  # noqa: S307  (printed by this test)
        classifier.predict([text], verbose=0)[0],
        rtol=0,
        atol=2e-5,
    )
