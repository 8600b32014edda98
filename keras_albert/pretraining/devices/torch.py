"""Data-parallel training by PyTorch's wrapper, one process per device."""

import os
from types import MethodType
from typing import Any

from keras_albert.tasks.distribution.model_state import build_metrics
from keras_albert.training.one_device import OneDevice
from keras_albert.types import Batch


class TorchProcesses(OneDevice):
    """The processes that `torchrun` starts, inside Keras' `fit`.

    The model's forward pass runs through
    `torch.nn.parallel.DistributedDataParallel`, which averages the gradients during
    the backward pass; Keras' step does the rest. Metrics are summed over the processes
    after each batch.
    """

    def __init__(self) -> None:
        import torch  # noqa: PLC0415  (it is the backend)

        if "LOCAL_RANK" not in os.environ:
            msg = (
                "Data parallelism on PyTorch needs one process per device. Start them "
                "with `torchrun --nproc-per-node=N -m keras_albert ...`."
            )
            raise ValueError(msg)
        on_gpu = torch.cuda.is_available()
        if on_gpu:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.distributed.init_process_group("nccl" if on_gpu else "gloo")
        self.shard = torch.distributed.get_rank()
        self.num_shards = torch.distributed.get_world_size()
        self.is_chief = self.shard == 0

    def prepare(self, model: Any, batch: Batch) -> None:
        """Run the forward pass of training through the wrapper."""
        import torch  # noqa: PLC0415  (it is the backend)

        class Forward(torch.nn.Module):
            """The model's forward pass as a module, which the wrapper requires."""

            def __init__(self) -> None:
                super().__init__()
                self.weights = torch.nn.ParameterList(
                    variable.value for variable in model.trainable_variables
                )

            def forward(self, task: Any, *args: Any, **kwargs: Any) -> Any:
                return type(task).call(task, *args, **kwargs)

        build_metrics(model, batch)
        forward = torch.nn.parallel.DistributedDataParallel(Forward())

        # Of the model, or of one of its weights with another number of layers.
        def call(task: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
            run = forward if training else forward.module
            return run(task, inputs, training=training, mask=mask)

        def train_step(task: Any, data: Any) -> Any:
            metrics = [variable.value for variable in task.metrics_variables]
            before = [metric.clone() for metric in metrics]
            type(task).train_step(task, data)
            _add_up(before, metrics)
            return task.get_metrics_result()

        # Bypasses the registry of modules, which would make the wrapper a child.
        for method in (call, train_step):
            object.__setattr__(model, method.__name__, MethodType(method, model))

    def agree(self, flag: bool) -> bool:
        """Return whether the flag of any process is set."""
        import torch  # noqa: PLC0415  (it is the backend)

        device = "cuda" if torch.cuda.is_available() else "cpu"
        flags = torch.tensor(int(flag), device=device)
        torch.distributed.all_reduce(flags)
        return bool(flags.item())

    def barrier(self) -> None:
        """Wait for all processes."""
        import torch  # noqa: PLC0415  (it is the backend)

        torch.distributed.barrier()


def _add_up(before: list[Any], metrics: list[Any]) -> None:
    """Add the increments of all processes to each metric."""
    import torch  # noqa: PLC0415  (it is the backend)

    added = [
        (now - then).detach().flatten()
        for now, then in zip(metrics, before, strict=True)
    ]
    total = torch.cat(added)
    torch.distributed.all_reduce(total)
    parts = total.split([len(part) for part in added])
    for now, then, part in zip(metrics, before, parts, strict=True):
        now.data.copy_(then + part.reshape(now.shape))
