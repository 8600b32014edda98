"""keras_albert's messages and arrays equal TensorFlow's."""

import numpy as np
import pytest

from keras_albert.serving.tensorflow_files import messages as ours
from keras_albert.serving.tensorflow_files.tensors import read_tensor, write_tensor

tf = pytest.importorskip("tensorflow")


def assert_same_fields(mine, theirs, seen):
    """Check that all fields, also nested ones, have TensorFlow's number and type."""
    if mine.full_name in seen:
        return
    seen.add(mine.full_name)
    for field in mine.fields:
        same = theirs.fields_by_name[field.name]
        assert field.number == same.number, field.full_name
        assert field.is_repeated == same.is_repeated, field.full_name
        # An enumeration is stored as a number.
        kind = field.TYPE_INT32 if same.type == same.TYPE_ENUM else same.type
        assert field.type == kind, field.full_name
        if field.message_type is not None:
            assert_same_fields(field.message_type, same.message_type, seen)


def test_every_field_of_a_model_is_theirs():
    from tensorflow.core.framework import tensor_pb2
    from tensorflow.core.protobuf import saved_model_pb2

    seen = set()
    for mine, theirs in (
        (ours.SavedModel, saved_model_pb2.SavedModel),
        (ours.TensorProto, tensor_pb2.TensorProto),
    ):
        assert_same_fields(mine.DESCRIPTOR, theirs.DESCRIPTOR, seen)
    assert len(seen) == 13


def test_every_field_of_a_request_is_theirs():
    api = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    seen = set()
    theirs = api.PredictionLog.DESCRIPTOR
    assert_same_fields(ours.PredictionLog.DESCRIPTOR, theirs, seen)
    assert len(seen) == 9


ARRAYS = [
    np.array([[1.5, -2], [3, 4]], np.float32),
    np.array([7, 7, 7], np.int32),
    np.array(5, np.int32),
    np.array([[b"a", b"\xff\0"], [b"", "é".encode()]], object),
    np.zeros((0, 3), np.float32),
    np.zeros((2, 0), object),
]


@pytest.mark.parametrize("array", ARRAYS)
def test_tensors(array):
    """Both libraries read the other's tensors, including short forms."""
    from tensorflow.core.framework import tensor_pb2

    written = write_tensor(array).SerializeToString()
    for found in (
        tf.make_ndarray(tensor_pb2.TensorProto.FromString(written)),
        read_tensor(ours.TensorProto.FromString(written)),
        read_tensor(
            ours.TensorProto.FromString(tf.make_tensor_proto(array).SerializeToString())
        ),
    ):
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


def test_a_dtype_that_no_served_model_has_is_refused():
    message = tf.make_tensor_proto(np.array([1.0])).SerializeToString()
    with pytest.raises(ValueError, match="dtype number 2"):
        read_tensor(ours.TensorProto.FromString(message))
