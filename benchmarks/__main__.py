"""Run all or some comparisons on each backend, each in a new process.

    python -m benchmarks
    python -m benchmarks fine_tuning prediction --backends torch jax -- --size tiny

Arguments after `--` are passed to each of them: `--size`, `--repeats`, `--data`,
`--output`, `--threads`. Tables are printed; JSON and plots go to runs/benchmarks.
`compression`, which needs a model and texts, has its own options.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

# Comparisons that depend on the backend, and those that need only one run.
COMPARISONS = (
    *("fine_tuning", "prediction", "equal_shapes", "first_step", "step_memory"),
    *("optimizer", "mixed_precision", "long_inputs", "throughput", "one_text"),
    "bare_loop",
)
ON_ONE_BACKEND = ("text_to_batch", "import_time")
# Runs only if it is named, as it needs a model and texts.
NEEDS_FILES = ("compression",)
BACKENDS = ("tensorflow", "jax", "torch")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = (*COMPARISONS, *ON_ONE_BACKEND)
    names = (*known, *NEEDS_FILES)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--backends", nargs="+", default=BACKENDS, choices=BACKENDS)
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:cut])
    if unknown := [name for name in arguments.names if name not in names]:
        parser.error(f"there is no {unknown[0]!r}; choose from {', '.join(names)}")
    failed = []
    for name in arguments.names or known:
        one = name in (*ON_ONE_BACKEND, *NEEDS_FILES)
        for backend in arguments.backends[:1] if one else arguments.backends:
            command = [
                sys.executable,
                str(Path(__file__).with_name(f"{name}.py")),
                *words[cut + 1 :],
            ]
            environment = os.environ | {"KERAS_BACKEND": backend}
            if subprocess.run(command, env=environment, check=False).returncode:
                failed.append(f"{name} on {backend}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
