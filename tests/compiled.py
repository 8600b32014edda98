"""What Keras leaves to each backend: gradients, and the size of a program."""

import keras
import numpy as np


def to_numpy(tree):
    return keras.tree.map_structure(
        lambda x: np.asarray(keras.ops.convert_to_numpy(x)), tree
    )


def gradients(layer, weigh, *args, **kwargs):
    """The compiled gradients of `weigh(layer(...))`.

    Returns the layer's outputs and one array for each trainable variable.
    """
    outputs, grads = _GRADIENTS[keras.config.backend()](layer, weigh, args, kwargs)
    return to_numpy(outputs), to_numpy(grads)


def _jax_gradients(layer, weigh, args, kwargs):
    import jax

    def loss(trainable, others):
        outputs, _ = layer.stateless_call(trainable, others, *args, **kwargs)
        return weigh(outputs), outputs

    run = jax.jit(jax.value_and_grad(loss, has_aux=True))
    (_, outputs), grads = run(
        [v.value for v in layer.trainable_variables],
        [v.value for v in layer.non_trainable_variables],
    )
    return outputs, grads


def _tensorflow_gradients(layer, weigh, args, kwargs):
    import tensorflow as tf

    variables = [v.value for v in layer.trainable_variables]

    @tf.function(jit_compile=False, autograph=False)
    def run():
        with tf.GradientTape() as tape:
            outputs = layer(*args, **kwargs)
            loss = weigh(outputs)
        grads = tape.gradient(loss, variables)
        return outputs, [tf.convert_to_tensor(grad) for grad in grads]

    return run()


def _torch_gradients(layer, weigh, args, kwargs):
    layer.zero_grad()
    outputs = layer(*args, **kwargs)
    weigh(outputs).backward()
    return outputs, [v.value.grad for v in layer.trainable_variables]


_GRADIENTS = {
    "jax": _jax_gradients,
    "tensorflow": _tensorflow_gradients,
    "torch": _torch_gradients,
}


def program_size(layer, x):
    """How many operations the traced forward pass of a layer has."""
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        spec = tf.TensorSpec(x.shape, x.dtype)
        traced = tf.function(layer, autograph=False).get_concrete_function(spec)
        graph = traced.graph.as_graph_def()
        inner = sum(len(f.node_def) for f in graph.library.function)
        return len(graph.node) + inner
    import jax

    def count(jaxpr):
        total = 0
        for equation in jaxpr.eqns:
            total += 1
            for value in equation.params.values():
                inner = getattr(value, "jaxpr", None)
                total += count(inner) if inner is not None else 0
        return total

    return count(jax.make_jaxpr(layer)(x).jaxpr)
