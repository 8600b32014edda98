"""Compile the training step of pretraining for TPUs, on a machine without one.

    pip install libtpu
    python benchmarks/tpu_compile.py --sizes base xxlarge --chips v5e:2x2 v5p:2x2x1
    python benchmarks/tpu_compile.py --sizes xxlarge --chips v5e:8x8 --batch 4096

Prints the compilation time, the memory used on a chip, the largest batch for a chip,
and the compiler's estimate of the step in millions of cycles (`tpu_cycles.py`). The
step is that of `AlbertPretrainer` as compiled by `pretrain`, in mixed_bfloat16, at 512
tokens, data parallel over the chips. The search begins with large batches: one that is
too large fails within seconds with the memory it needs.
"""

import argparse
import os
import re
import time
from dataclasses import dataclass

os.environ["KERAS_BACKEND"] = "jax"
# The host runs on its CPU, and the compiler does not query the metadata server.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TPU_SKIP_MDS_QUERY"] = "1"

from lower_step import lower_training_step
from tpu_cycles import count_cycles

from keras_albert import AlbertBackbone, AlbertPretrainer
from keras_albert.backbone import architecture
from keras_albert.pretraining import PretrainingConfig
from keras_albert.pretraining.model import compile_pretrainer

LENGTH = 512
# Rows per chip are a multiple of it, because the hardware pads other numbers.
GRAIN = 8
UNITS = {"M": 2**20, "G": 2**30, "T": 2**40}
SIZES = ("base", "large", "xlarge", "xxlarge")


def build(size: str, remat: bool):
    config = PretrainingConfig(
        data="-", output="-", optimizer="lamb", precision="mixed_bfloat16"
    )
    backbone = AlbertBackbone(
        **architecture(size), remat=remat, dtype="mixed_bfloat16", seed=0
    )
    model = AlbertPretrainer(backbone)
    compile_pretrainer(model, config)
    return model, config.masking_rates.slots(LENGTH)


@dataclass(frozen=True)
class Compiled:
    """A compilation: seconds, and GB that it uses and that a chip has available."""

    seconds: float
    used: float
    available: float | None = None  # only if the program does not fit
    cycles: int = 0  # only if it fits


def compile_step(model, slots, devices, rows, clock=time.perf_counter) -> Compiled:
    lowered = lower_training_step(model, rows * len(devices), LENGTH, slots, devices)
    start = clock()
    try:
        program = lowered.compile()
    except Exception as error:  # the class is not public
        sizes = re.findall(r"\(([\d.]+)([GTM])\)", str(error).split("HLO module")[0])
        if "exceeds available HBM" not in str(error) or len(sizes) < 2:
            raise
        used, available = (
            float(number) * UNITS[unit] / 1e9 for number, unit in sizes[:2]
        )
        return Compiled(clock() - start, used, available)
    seconds, memory = clock() - start, program.memory_analysis()
    # The state is donated to the step, so it counts once.
    used = memory.argument_size_in_bytes + memory.temp_size_in_bytes
    cycles = count_cycles(program.as_text()).total
    return Compiled(seconds, used / 1e9, cycles=cycles)


def search(model, slots, devices, rows, clock=time.perf_counter):
    """Return the largest batch for a chip and its compilation."""
    while True:
        compiled = compile_step(model, slots, devices, rows, clock)
        if compiled.available is None or rows == 1:
            return rows, compiled
        fitting = int(rows * compiled.available / compiled.used)
        grain = GRAIN if rows > 2 * GRAIN else 1
        rows = max(1, min(fitting // grain * grain or fitting, rows - grain))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", default=SIZES, choices=SIZES)
    parser.add_argument("--chips", nargs="+", default=["v5e:2x2", "v5p:2x2x1"])
    parser.add_argument("--batch", type=int, help="over all chips; no search")
    parser.add_argument(
        "--remat", action=argparse.BooleanOptionalAction, help="default: both"
    )
    parser.add_argument("--first", type=int, default=4096, help="rows tried first")
    arguments = parser.parse_args()
    from jax.experimental import topologies

    print("| size | chips | remat | batch a chip | compile, s | GB a chip | cycles |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for size in arguments.sizes:
        for remat in (True, False) if arguments.remat is None else (arguments.remat,):
            model, slots = build(size, remat)
            for chips in arguments.chips:
                devices = topologies.get_topology_desc(
                    platform="tpu", topology_name=chips
                ).devices
                if arguments.batch:
                    rows = arguments.batch // len(devices)
                    compiled = compile_step(model, slots, devices, rows)
                else:
                    rows, compiled = search(model, slots, devices, arguments.first)
                fits = "" if compiled.available is None else ", does not fit"
                print(
                    f"| {size} | {len(devices)} of {chips} | {remat} | {rows} "
                    f"| {compiled.seconds:.0f} | {compiled.used:.1f}{fits} "
                    f"| {compiled.cycles / 1e6:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
