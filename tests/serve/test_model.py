import pytest

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

from keras_albert.serve.model import graph_message  # noqa: E402


def test_an_assertion_says_its_sentence_alone():
    @tf.function
    def check(ids):
        said = ["`token_ids` contains an id [of 9]. Its row and the id:", 0, ids[0]]
        with tf.control_dependencies([tf.debugging.Assert(ids[0] < 9, said)]):
            return ids + 1

    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        check(tf.constant([12]))
    assert "{{node" in error.value.message
    said = "`token_ids` contains an id [of 9]. Its row and the id: 0 12"
    assert graph_message(error.value.message) == said


def test_other_errors_stay_whole():
    assert graph_message("Shapes differ:\n2, 3") == "Shapes differ:\n2, 3"
