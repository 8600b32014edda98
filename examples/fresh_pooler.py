"""A pooler that starts anew, before a small model is released.

Sentence order trains the pooler for itself, and a small model's says little else: with
100 labels, fine-tuning from it was no better than from random weights. A new one is
better to start from, as [Zhang et al., 2021](https://arxiv.org/abs/2006.05987) found
for BERT. What the old one knew is in the vector of `[CLS]` below it: the head for
sentence order is fitted to what the new pooler makes of it.
"""

import argparse
import shutil
from pathlib import Path

import keras
import numpy as np
from second_task import features
from sklearn.linear_model import LogisticRegression

from keras_albert import AlbertPretrainer
from keras_albert.presets.preset_files import preset_directory
from keras_albert.pretraining import PretrainingData


def fresh_pooler(
    preset: Path,
    data: PretrainingData,
    target: Path,
    length: int = 128,
    pairs: int = 16000,
) -> None:
    """Save a preset whose pooler is new, and its head for sentence order fitted to it.

    Args:
        preset: Of an `AlbertPretrainer`; left as it is.
        data: Prepared texts, to fit the head to.
        target: A directory that does not exist yet; gets the preset's card and curve
            as well.
        length: int. Tokens in a row, special ones included. Defaults to `128`.
        pairs: int. How many to fit to. Defaults to `16000`.
    """
    task = AlbertPretrainer.from_preset(preset)
    pooler = task.backbone.pooler
    pooler.kernel.assign(keras.initializers.LecunNormal(seed=0)(pooler.kernel.shape))
    pooler.bias.assign(np.zeros(pooler.bias.shape))

    reader = keras.Model(task.backbone.input, task.backbone.output["pooled_output"])
    vectors, swapped = features(reader, data, length, pairs)
    fitted = LogisticRegression(C=0.1, max_iter=1000).fit(vectors, swapped)
    # One score less the other is the regression's.
    head = task.sentence_order_head
    head.kernel.assign(np.outer(fitted.coef_[0], [-0.5, 0.5]))
    head.bias.assign(fitted.intercept_[0] * np.array([-0.5, 0.5]))

    with preset_directory(target) as directory:
        task.save_to_preset(directory)
        for story in (preset / "README.md", preset / "curve.png"):
            # Without matplotlib there is no curve.
            if story.is_file():
                shutil.copy(story, directory)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("preset", type=Path)
    parser.add_argument("data", type=Path, help="what `keras-albert prepare` wrote")
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    fresh_pooler(arguments.preset, PretrainingData(arguments.data), arguments.target)
