"""Compare the built-in presets: parameters, size, and the time of one prediction.

    KERAS_BACKEND=torch python benchmarks/preset_sizes.py --threads 1 --clock cpu

The table of docs/choosing_a_model.md. Nothing is downloaded: the presets that are not
part of the package are built with random weights, which take the same time. The size is
that of float32 weights; that of a preset in the package is its size on disk. A
prediction is the vector of one row of `--length` tokens, and its time is a multiple of
base's.
`--output` receives the times as JSON.
"""

from pathlib import Path
from typing import Any

from reports import report
from settings import prepare, timing_parser
from side_by_side import CLOCKS, Side, measure, spread

FIRST = "albert_base_en_uncased"


def build(name: str) -> Any:
    """Return a preset's encoder: loaded if it is in the package, else random."""
    from keras_albert import AlbertBackbone
    from keras_albert.backbone import architecture
    from keras_albert.presets import BUILTIN_PRESETS

    preset = BUILTIN_PRESETS[name]
    if preset.handle is None:
        return AlbertBackbone.from_preset(name)
    return AlbertBackbone(**architecture(preset.size, preset.version), seed=0)


def megabytes(name: str, parameters: int) -> str:
    """Return the size on disk of a preset in the package, or that of the weights."""
    import keras_albert
    from keras_albert.presets import BUILTIN_PRESETS

    if BUILTIN_PRESETS[name].handle is not None:
        return f"{4 * parameters / 1e6:.0f}"
    folder = Path(keras_albert.__file__).parent / "presets" / name
    count = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{count / 1e6:.1f}, in the package"


def compare(arguments: Any) -> None:
    """Print one preset of each size; the others of a size differ in their weights."""
    import keras
    import numpy as np

    from keras_albert.presets import BUILTIN_PRESETS

    names = {preset.size: name for name, preset in reversed(BUILTIN_PRESETS.items())}
    found, sides = {}, []
    for name in sorted(names.values(), key=lambda name: name != FIRST):
        model = build(name)
        found[name] = model
        shape = (1, arguments.length)
        ids = np.random.default_rng(0).integers(5, model.vocabulary_size, shape)
        batch = {
            "token_ids": ids.astype("int32"),
            "segment_ids": np.zeros(shape, "int32"),
            "padding_mask": np.ones(shape, "int32"),
        }
        sides.append(
            Side(name, lambda model=model, batch=batch: model.predict_on_batch(batch))
        )
    clock = CLOCKS[arguments.clock]
    compared = measure("sizes", sides, arguments.repeats, clock=clock)
    head = "| preset | parameters | MB | layers | width | heads | tokens | time | ms |"
    print(f"{head}\n|---|---|---|---|---|---|---|---|---|")
    for name, model in sorted(found.items(), key=lambda x: x[1].count_params()):
        low, middle, high = spread(compared.ratios(name))
        parameters = model.count_params()
        milliseconds = 1e3 * spread(compared.costs[name])[1]
        print(
            f"| `{name}` | {parameters:,} | {megabytes(name, parameters)} "
            f"| {model.num_layers} | {model.hidden_dim} | {model.num_heads} "
            f"| {model.max_sequence_length} | {middle:.2g} ({low:.2g} to {high:.2g}) "
            f"| {milliseconds:.3g} |"
        )
    report("preset_sizes", [compared], arguments, keras.backend.backend())


def main() -> None:
    made = timing_parser(__doc__)
    made.add_argument("--length", type=int, default=128, help="tokens of the row")
    arguments = made.parse_args()
    prepare(arguments)
    compare(arguments)


if __name__ == "__main__":
    main()
