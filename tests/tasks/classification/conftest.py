import pytest

from keras_albert import AlbertBackbone, AlbertClassifier
from tests.tasks.classification.exit_models import LAYERS


@pytest.fixture(scope="module")
def make(make_classifier):
    """Build a classifier of six layers, with exits unless told otherwise."""

    def make(num_classes=2, exits=True, num_layers=LAYERS, unroll=False, **kwargs):
        like = make_classifier(dropout=0.0)
        config = like.backbone.get_config()
        config |= {"num_layers": num_layers, "unroll": unroll}
        config |= {
            name: kwargs.pop(name)
            for name in {"dtype", "remat", "adapter_rank"} & kwargs.keys()
        }
        kwargs = {"preprocessor": like.preprocessor, "dropout": 0.0} | kwargs
        return AlbertClassifier(
            AlbertBackbone.from_config(config), num_classes, exits=exits, **kwargs
        )

    return make
