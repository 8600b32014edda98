"""Steps of training and evaluation that several processes of PyTorch take together."""

from typing import Any

import keras

from keras_albert.devices.batch_sharding import divide_weights, losses_by_weight, summed


def train_together(model: Any, batch: Any, counts: bool) -> dict[str, Any]:
    """Train on a batch, of which each process has some rows."""
    # As `DistributedDataParallel` does, but after the backward pass: layers share their
    # weights, whose gradients are complete only at its end.
    import torch  # noqa: PLC0415  (it is the backend)

    before = _metrics(model)
    y_pred, loss, share = _forward(model, batch, counts, training=True)
    model.zero_grad()
    model.optimizer.scale_loss(loss * share).backward()
    variables = model.trainable_weights[:]
    gradients = [variable.value.grad for variable in variables]
    with torch.no_grad():
        _update_metrics(model, batch, y_pred, loss)
        added = _added(model, before, counts)
        sums = model.processes.sum_tensors([*gradients, *added])
        model.optimizer.apply(sums[: len(gradients)], variables)
        return _metrics_with(model, before, sums[len(gradients) :])


def evaluate_together(model: Any, batch: Any, counts: bool) -> dict[str, Any]:
    """Evaluate on a batch, of which each process has some rows."""
    before = _metrics(model)
    y_pred, loss, _ = _forward(model, batch, counts, training=False)
    _update_metrics(model, batch, y_pred, loss)
    added = _added(model, before, counts)
    return _metrics_with(model, before, model.processes.sum_tensors(added))


def _forward(
    model: Any, batch: Any, counts: bool, training: bool
) -> tuple[Any, Any, Any]:
    """Return outputs, the loss, and the share by which it enters the whole loss."""
    import torch  # noqa: PLC0415  (it is the backend)

    x, y, weights = batch
    y_pred = model(x, training=training)
    losses = losses_by_weight(model, weights)
    rows = float(counts * _count(batch))
    parts = [rows] if not losses else [rows, *_sums(weights, counts)]
    own = torch.stack([torch.as_tensor(part, device=_device(y_pred)) for part in parts])
    (totals,) = model.processes.sum_tensors([own])
    share = own[0] / totals[0]
    if losses and counts:
        # `share` of it remains of each.
        of_weight = {
            id(weight): total * share
            for weight, total in zip(_flat(weights), totals[1:], strict=True)
        }
        weights = divide_weights(
            model.loss, losses, weights, lambda weight: of_weight[id(weight)]
        )
    with summed(losses):
        loss = model.compute_loss(x, y, y_pred, weights, training=training)
    return y_pred, loss, share


def _device(y_pred: Any) -> Any:
    return keras.tree.flatten(y_pred)[0].device


def _flat(weights: Any) -> list[Any]:
    return [each for each in keras.tree.flatten(weights) if each is not None]


def _sums(weights: Any, counts: bool) -> list[Any]:
    return [counts * each.sum() for each in _flat(weights)]


def _count(batch: Any) -> int:
    return int(keras.tree.flatten(batch)[0].shape[0])


def _update_metrics(model: Any, batch: Any, y_pred: Any, loss: Any) -> None:
    x, y, weights = batch
    for metric in model.metrics:
        if metric.name == "loss":
            metric.update_state(loss, sample_weight=_count(batch))
    model.compute_metrics(x, y, y_pred, weights)


def _metrics(model: Any) -> list[Any]:
    return [variable.value.detach().clone() for variable in model.metrics_variables]


def _added(model: Any, before: list[Any], counts: bool) -> list[Any]:
    """Return what a batch has added to the metrics."""
    pairs = zip(_metrics(model), before, strict=True)
    return [(now - then) * counts for now, then in pairs]


def _metrics_with(model: Any, before: list[Any], added: list[Any]) -> dict[str, Any]:
    """Set the metrics to what they were before a batch and what all have added."""
    variables = model.metrics_variables
    for variable, then, more in zip(variables, before, added, strict=True):
        variable.assign(then + more)
    return model.get_metrics_result()
