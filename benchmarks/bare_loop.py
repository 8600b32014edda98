"""Compare pretraining with a bare loop in PyTorch, written by hand.

    KERAS_BACKEND=torch python benchmarks/bare_loop.py --threads 2
    KERAS_BACKEND=torch python benchmarks/bare_loop.py --precision mixed_bfloat16
    KERAS_BACKEND=jax python benchmarks/bare_loop.py --profile

Ours is the training step of `keras-albert pretrain --second-task none`. The bare loop
does the same work without a library: functions of `torch.nn.functional`, its fused
attention and AdamW, on PyTorch whatever the backend. Both are checked to have the same
losses in two consecutive steps. `--profile` prints, instead of a comparison, what XLA
spends the step's time on.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from equal_shapes import POLICIES, VOCABULARY_SIZE
from settings import prepare, timing_parser
from side_by_side import CLOCKS, Comparison, Side, measure, spread

# Of losses of about 10, in steps that change them by a tenth or more.
TOLERANCES = {"float32": 1e-4, "mixed_bfloat16": 0.05}
HEAD_WIDTH = 64
EPSILON = 1e-12


def build(arguments: Any, vocabulary_size: int) -> tuple[Any, Any]:
    """Return a model as compiled by `pretrain`, with a constant rate, and settings."""
    from peer_models import build_backbone

    from keras_albert import AlbertMaskedLM
    from keras_albert.pretraining import PretrainingConfig
    from keras_albert.pretraining.model import compile_pretrainer

    config = PretrainingConfig(
        data="-",
        output="-",
        size=arguments.size,
        precision=arguments.precision,
        second_task="none",
        warmup_steps=0,
        decay_power=0.0,
    )
    changes: dict[str, Any] = {"max_sequence_length": arguments.length}
    if arguments.layers:
        changes["num_layers"] = arguments.layers
    if width := arguments.width:
        changes |= {"hidden_dim": width, "intermediate_dim": 4 * width}
        changes["num_heads"] = width // HEAD_WIDTH
    backbone = build_backbone(
        arguments.size, vocabulary_size, dtype=arguments.precision, **changes
    )
    model = AlbertMaskedLM(backbone)
    compile_pretrainer(model, config)
    return model, config


def make_batch(config: Any, vocabulary_size: int, rows: int, length: int) -> Any:
    """Return ids, targets and weights as in pretraining, in rows without padding."""
    from peer_models import random_ids

    ids = random_ids(vocabulary_size, rows, length)
    slots = config.masking_rates.slots(length)
    generator = np.random.default_rng(1)
    places = [generator.permutation(length)[:slots] for _ in range(rows)]
    ids["mask_positions"] = np.sort(places).astype("int32")
    y = generator.integers(5, vocabulary_size, (rows, slots)).astype("int32")
    return ids, y, np.ones((rows, slots), "float32")


class BareLoop:
    """Masked language modeling by hand, with the weights of a model.

    Args:
        model: An `AlbertMaskedLM` with one group of one block and without dropout.
        config: The `PretrainingConfig` of its optimizer.
    """

    def __init__(self, model: Any, config: Any) -> None:
        import torch

        self.backbone = model.backbone
        self.precision = config.precision
        self.clip_norm = config.clip_norm
        self.weights = weights = _weights(model)
        free = [w for w in weights.values() if w.ndim == 1]
        decayed = [w for w in weights.values() if w.ndim > 1]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": config.weight_decay},
                {"params": free, "weight_decay": 0.0},
            ],
            lr=config.peak_learning_rate,
            betas=(0.9, config.beta_2),
            # Keras adds epsilon before the correction of bias: equal in the first step.
            eps=1e-6 / (1 - config.beta_2) ** 0.5,
            fused=True,
        )

    def loss(self, ids: dict[str, Any], targets: Any) -> Any:
        """Return the mean cross-entropy of the masked tokens."""
        import torch
        from torch.nn import functional as f

        weights = self.weights
        rows, length = ids["token_ids"].shape

        def linear(x: Any, name: str) -> Any:
            return f.linear(x, weights[name], weights[f"{name}_bias"])

        def norm(x: Any, name: str) -> Any:
            gamma, beta = weights[f"{name}_gamma"], weights[f"{name}_beta"]
            return f.layer_norm(x, gamma.shape, gamma, beta, EPSILON)

        x = f.embedding(ids["token_ids"], weights["token"])
        x = x + weights["position"][:length]
        x = x + f.embedding(ids["segment_ids"], weights["segment"])
        x = linear(norm(x, "embedding"), "projection")
        mask = torch.where(ids["padding_mask"] > 0, 0.0, -1e30)[:, None, None, :]
        heads = self.backbone.num_heads
        for _ in range(self.backbone.num_layers):
            parts = linear(x, "qkv").view(rows, length, 3, heads, -1)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            attended = f.scaled_dot_product_attention(
                query, key, value, attn_mask=mask.to(query.dtype)
            )
            attended = attended.transpose(1, 2).reshape(rows, length, -1)
            x = norm(x + linear(attended, "output"), "attention")
            inner = f.gelu(linear(x, "inner"), approximate="tanh")
            x = norm(x + linear(inner, "outer"), "feedforward")
        x = x[torch.arange(rows)[:, None], ids["mask_positions"]]
        x = norm(f.gelu(linear(x, "transform"), approximate="tanh"), "head")
        scores = f.linear(x, weights["token"], weights["scores_bias"])
        return f.cross_entropy(scores.flatten(0, 1).float(), targets.flatten())

    def train_step(self, ids: dict[str, Any], targets: Any) -> float:
        """Train on one batch and return the loss."""
        import torch

        is_mixed = self.precision != "float32"
        with torch.autocast("cpu", torch.bfloat16, enabled=is_mixed):
            loss = self.loss(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights.values(), self.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(loss.detach())


def _weights(model: Any) -> dict[str, Any]:
    """Return a model's weights in PyTorch's layout."""
    import torch

    embedding, head = model.backbone.embedding, model.masked_lm_head
    (block,) = model.backbone.encoder.blocks
    found: dict[str, Any] = {
        "token": embedding.token_embedding.embeddings,
        "position": embedding.position_embedding.position_embeddings,
        "segment": embedding.segment_embedding.embeddings,
        "scores_bias": head.output_bias,
    }
    products = {
        "projection": [embedding.projection],
        # One product is faster than three.
        "qkv": [block.query, block.key, block.value],
        "output": [block.attention_output],
        "inner": [block.feedforward_intermediate],
        "outer": [block.feedforward_output],
        "transform": [head.transform],
    }
    for name, layers in products.items():
        found[name] = np.concatenate([np.asarray(e.kernel).T for e in layers])
        found[f"{name}_bias"] = np.concatenate([np.asarray(e.bias) for e in layers])
    norms = {
        "embedding": embedding.layer_norm,
        "attention": block.attention_layer_norm,
        "feedforward": block.feedforward_layer_norm,
        "head": head.layer_norm,
    }
    for name, layer in norms.items():
        found |= {f"{name}_gamma": layer.gamma, f"{name}_beta": layer.beta}
    return {
        name: torch.tensor(np.asarray(values), requires_grad=True)
        for name, values in found.items()
    }


def check_losses(precision: str, *steps: Callable[[], float]) -> str:
    """Take two steps on each side and compare their losses, ours first.

    Returns:
        A note for the report.

    Raises:
        ValueError: If they differ, or the first step did not change them.
    """
    losses = np.array([[step(), step()] for step in steps])
    worst, moved = np.ptp(losses, axis=0).max(), np.ptp(losses, axis=1).min()
    allowed = TOLERANCES[precision]
    # In this form the check fails for NaN, too.
    if not worst <= allowed < moved:
        msg = (
            f"The sides do not compute the same: losses of two steps {losses.tolist()} "
            f"differ by {worst:.1e}, and {allowed:.1e} is allowed."
        )
        raise ValueError(msg)
    first, second = losses[0]
    return (
        f"losses of two steps from the same weights, {first:.3f} and {second:.3f}, "
        f"within {worst:.1e} (allowed {allowed:.1e})"
    )


def compare(arguments: Any, vocabulary_size: int = VOCABULARY_SIZE) -> Comparison:
    import torch

    rows, length = arguments.rows, arguments.length
    model, config = build(arguments, vocabulary_size)
    batch = make_batch(config, vocabulary_size, rows, length)
    ids, y, _ = batch
    bare = BareLoop(model, config)
    tensors = {name: torch.from_numpy(each).long() for name, each in ids.items()}
    targets = torch.from_numpy(y).long()

    def train() -> float:
        model.reset_metrics()
        return float(model.train_on_batch(*batch)[0])

    def train_bare() -> float:
        return bare.train_step(tensors, targets)

    note = check_losses(arguments.precision, train, train_bare)
    backbone = model.backbone
    found = measure(
        f"pretraining: {backbone.num_layers} layers of {backbone.hidden_dim}, "
        f"{rows} x {length}, {y.shape[1]} masked, {arguments.precision}",
        [
            Side("keras_albert", train, rows * length),
            Side("bare loop, PyTorch", train_bare, rows * length),
        ],
        arguments.repeats,
        clock=CLOCKS[arguments.clock],
        work="tokens",
        notes=[note],
    )
    ratios = [1 / ratio for ratio in found.ratios("bare loop, PyTorch")]
    least, median, most = spread(ratios)
    found.notes.append(
        f"keras_albert takes {median:.2f} ({least:.2f} to {most:.2f}) of its time"
    )
    return found


def print_profile(arguments: Any) -> None:
    """Print what XLA spends the time of our step on."""
    from xla_profile import profile_step

    model, config = build(arguments, VOCABULARY_SIZE)
    batch = make_batch(config, VOCABULARY_SIZE, arguments.rows, arguments.length)
    profile_step(model, batch, arguments.repeats)


def main() -> None:
    made = timing_parser(__doc__)
    made.set_defaults(size="tiny")
    made.add_argument("--rows", type=int, default=64)
    made.add_argument("--length", type=int, default=128)
    made.add_argument("--layers", type=int, help="default: as of the size")
    made.add_argument("--width", type=int, help="default: as of the size")
    made.add_argument("--precision", default="float32", choices=POLICIES)
    made.add_argument("--profile", action="store_true", help="on JAX")
    arguments = made.parse_args()
    prepare(arguments)
    import keras
    from reports import report

    backend = keras.config.backend()
    if arguments.profile:
        if backend != "jax":
            made.error(f"--profile is XLA's: set KERAS_BACKEND=jax, not {backend}")
        print_profile(arguments)
        return
    report("bare_loop", [compare(arguments)], arguments, backend)


if __name__ == "__main__":
    main()
