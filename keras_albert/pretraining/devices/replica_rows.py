"""Checks that batches can be split among replicas."""

import keras

from keras_albert.types import Batch


def check_rows(example: Batch, num_replicas: int) -> None:
    """Check that a batch can be split equally among replicas.

    Args:
        example: A batch of this process.
        num_replicas: int. The number of replicas in this process.

    Raises:
        ValueError: If it cannot.
    """
    rows = len(keras.tree.flatten(example)[0])
    if rows % num_replicas:
        msg = (
            f"{rows} rows cannot be shared among {num_replicas} devices. Choose a "
            "`batch_size` that is a multiple of the devices times "
            "`accumulation_steps`."
        )
        raise ValueError(msg)
