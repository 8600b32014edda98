"""MediaPipe's text classifier answers strings as `classify` does."""

import pytest

from keras_albert import AlbertClassifier
from tests.exports.served_models import make_task
from tests.one_backend import on_one_backend

pytestmark = on_one_backend


@pytest.mark.parametrize(
    ("name", "match"),
    [("Classifier", "by WordPiece"), ("TokenClassifier", "one label per text")],
)
def test_what_mediapipe_does_not_run_is_refused(name, match, tiny_proto, tmp_path):
    task = make_task(name, tiny_proto, labels=["O", "B-x"])
    with pytest.raises(ValueError, match=match):
        task.export(tmp_path / "model.tflite", format="mediapipe")
    assert not list(tmp_path.iterdir())


def test_it_answers_strings_as_python_does(tmp_path):
    pytest.importorskip("tensorflow")
    text = pytest.importorskip("mediapipe.tasks.python.text", exc_type=ImportError)
    classifier = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
    path = tmp_path / "films.tflite"
    assert classifier.export(path, format="mediapipe") == path
    texts = ["A Great film, isn't it?", "dull and slow ...", "it has scenes. " * 300]
    with text.TextClassifier.create_from_model_path(str(path)) as client:
        for each, expected in zip(texts, classifier.classify(texts), strict=True):
            best = client.classify(each).classifications[0].categories[0]
            assert best.category_name == expected["label"]
            assert best.score == pytest.approx(expected["score"], abs=1e-4)
