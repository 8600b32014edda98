"""What was trained comes back: here, in a fresh process, on another backend."""

import importlib.util
import json

import keras
import numpy as np
import pytest

from tests.one_backend import on_one_backend

pytestmark = on_one_backend

BACKENDS = ("tensorflow", "jax", "torch")
TEXTS = ["the old lamps", "", "storm and rain " * 20, "bread 🙂"]

READ = """
import json, sys
import keras_albert, keras_hub, numpy as np
directory, texts = sys.argv[1], json.loads(sys.argv[2])
"""


def outputs_of(printed):
    return np.array(json.loads(printed.splitlines()[-1]))


@pytest.fixture(scope="module")
def preset(trained, tmp_path_factory):
    directory = tmp_path_factory.mktemp("presets") / "toy"
    trained.save_to_preset(directory)
    return directory


@pytest.fixture(scope="module")
def expected(trained):
    return trained.predict(TEXTS, verbose=0)


class TestPreset:
    @pytest.mark.parametrize("backend", BACKENDS)
    def test_loads_on_the_other_backends(self, preset, expected, run_fresh, backend):
        if backend == keras.config.backend():
            pytest.skip("it is this one")
        if importlib.util.find_spec(backend) is None:
            pytest.skip(f"{backend} is not installed")
        program = READ + (
            "model = keras_albert.AlbertClassifier.from_preset(directory)\n"
            "print(json.dumps(model.predict(texts, verbose=0).tolist()))"
        )
        printed = run_fresh(program, preset, json.dumps(TEXTS), backend=backend)
        np.testing.assert_allclose(outputs_of(printed), expected, atol=1e-5)

    def test_loads_through_keras_hub(self, preset, expected, trained, run_fresh):
        program = READ + (
            "model = keras_hub.models.TextClassifier.from_preset(directory)\n"
            "assert type(model) is keras_albert.AlbertClassifier\n"
            "assert model.labels == ('bad', 'good')\n"
            "assert model.preprocessor.max_sequence_length == 32\n"
            "backbone = keras_hub.models.Backbone.from_preset(directory)\n"
            "assert type(backbone) is keras_albert.AlbertBackbone\n"
            "pooled = backbone.predict(model.preprocessor(texts), verbose=0)\n"
            "from keras_albert.presets.handles import local_directory\n"
            "tiny = str(local_directory('albert_tiny_en_uncased'))\n"
            "filler = keras_hub.models.MaskedLM.from_preset(tiny)\n"
            "assert type(filler) is keras_albert.AlbertMaskedLM\n"
            "print(json.dumps(pooled['pooled_output'].tolist()))\n"
            "print(json.dumps(model.predict(texts, verbose=0).tolist()))"
        )
        printed = run_fresh(program, preset, json.dumps(TEXTS))
        np.testing.assert_allclose(outputs_of(printed), expected, atol=1e-5)
        pooled = trained.backbone.predict(trained.preprocessor(TEXTS), verbose=0)
        np.testing.assert_allclose(
            json.loads(printed.splitlines()[-2]), pooled["pooled_output"], atol=1e-5
        )


class TestKerasFile:
    def test_goes_on_learning(self, trained, toy, tmp_path):
        """The saved schedule has ended at zero; the next `fit` has one of its own."""
        trained.save(tmp_path / "model.keras")
        copy = keras.models.load_model(tmp_path / "model.keras")
        before = [weights.copy() for weights in copy.get_weights()]
        copy.fit(toy[0][:32], toy[1][:32], batch_size=8, verbose=0)
        moved = [
            np.abs(new - old).max()
            for new, old in zip(copy.get_weights(), before, strict=True)
        ]
        # The rate that `compile` was given is still known.
        assert max(moved) > 1e-3

    def test_a_file_in_the_old_format_leaves_the_model_whole(self, trained, tmp_path):
        for path, zipped in (("model.h5", None), ("folder", False), ("hf://a/b", None)):
            with pytest.raises(ValueError, match=r"lack the vocabulary.*NAME\.keras"):
                trained.save(path, zipped=zipped)
        # It takes the optimizer out of the arguments of `compile`.
        keras.saving.save_model(trained, tmp_path / "model.h5")
        config = trained.get_compile_config()["optimizer"]
        assert config["class_name"] == "AdamW"
        assert config["automatic"]["learning_rate"]
        trained.save(tmp_path / "model.keras")


def test_task_weights_are_the_head(trained, make_classifier, tmp_path):
    path = tmp_path / "task.weights.h5"
    trained.save_task_weights(path)
    copy = make_classifier()
    backbone = [weights.copy() for weights in copy.backbone.get_weights()]
    copy.load_task_weights(path)
    assert all(map(np.array_equal, copy.backbone.get_weights(), backbone))
    np.testing.assert_equal(
        copy.output_dense.get_weights(), trained.output_dense.get_weights()
    )
    # Two arrays and an attribute or two: nothing of the optimizer is in the file.
    head = sum(weights.nbytes for weights in trained.output_dense.get_weights())
    assert path.stat().st_size < head + 40_000
