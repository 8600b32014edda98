"""The metadata of cards, as the hub's own library reads them."""

import math

import pytest
import yaml
from huggingface_hub import ModelCard

from keras_albert.training.model_card import (
    CardMetadata,
    base_model,
    code,
    front_matter,
    plain_text,
    unknowns,
)


def read(*arguments, preset=None):
    return ModelCard(front_matter(*arguments, preset=preset) + "\n\ntext").data


def test_the_hub_reads_everything():
    scores = {"accuracy": 0.91234, "loss": 0.3, "Pearson": math.nan}
    data = read(
        *("albert-films", "text-classification", ["films"], scores, "dev.tsv"),
        CardMetadata(language="de", license="mit", dataset="user/films"),
        preset="albert_large_v1_en_uncased",
    )
    assert data.to_dict() == {
        "base_model": "albert/albert-large-v1",
        "datasets": ["user/films"],
        "language": "de",
        "library_name": "keras-albert",
        "license": "mit",
        "metrics": ["accuracy"],
        "pipeline_tag": "text-classification",
        "tags": ["albert", "keras", "keras_albert", "films"],
        "model-index": [
            {
                "name": "albert-films",
                "results": [
                    {
                        "task": {"type": "text-classification"},
                        "dataset": {"name": "dev.tsv", "type": "user/films"},
                        "metrics": [
                            {"type": "accuracy", "value": 0.9123, "name": "accuracy"}
                        ],
                    }
                ],
            }
        ],
    }


def test_what_is_unknown_is_left_out():
    text = front_matter("a", "fill-mask", [], {"loss": 1.0}, "b", CardMetadata())
    assert yaml.safe_load(text.strip("-")) == {
        "library_name": "keras-albert",
        "license": "unknown",
        "pipeline_tag": "fill-mask",
        "tags": ["albert", "keras", "keras_albert"],
    }


def test_names_that_yaml_would_read_otherwise():
    scores = {"accuracy": 1.0}
    data = read("no", "fill-mask", [], scores, "a: #1", CardMetadata(language="no"))
    # Norwegian, not False.
    assert data.language == "no"
    assert data.model_name == "no"
    assert data.eval_results[0].dataset_name == "a: #1"


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        (None, None),
        ("hf://user/model", "user/model"),
        ("kaggle://keras/albert/keras/x/1", None),
        # KerasHub's, on Kaggle; and the one in the package.
        ("albert_base_en_uncased", None),
        ("albert_tiny_en_uncased", None),
    ],
)
def test_a_base_model_is_one_of_the_hub(preset, expected):
    assert base_model(preset) == expected


def test_a_card_asks_for_what_is_missing():
    assert "`license`, `dataset`" in unknowns(CardMetadata("en"))
    assert "metadata" not in unknowns(CardMetadata("en", "mit", "user/films"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("not_entailment", "not_entailment"),
        ("B-PER", "B-PER"),
        ("a\nb\u2028c", "a b c"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("a | b", r"a \| b"),
        ("![x](http://y)", r"!\[x\](http://y)"),
        ("_a_ *b* `c`", r"\_a\_ \*b\* \`c\`"),
        ("&amp;", "&amp;amp;"),
    ],
)
def test_a_label_is_shown_as_it_is(text, shown):
    assert plain_text(text) == shown


def test_a_setting_stays_within_its_code():
    assert code("a\n# b") == "`a # b`"
    assert code("a`<b>``c") == "``` a`<b>``c ```"
