"""The rows of a batch that each replica learns from."""

import keras

from keras_albert.types import Batch


def check_rows(example: Batch, num_replicas: int) -> None:
    """Find out early that a batch cannot be shared out.

    Args:
        example: A batch of this process.
        num_replicas: int. Replicas of this process.

    Raises:
        ValueError: If they do not get as many rows each.
    """
    rows = len(keras.tree.flatten(example)[0])
    if rows % num_replicas:
        msg = (
            f"{rows} rows cannot be shared among {num_replicas} devices. Choose a "
            "`batch_size` that is a multiple of the devices times "
            "`accumulation_steps`."
        )
        raise ValueError(msg)
