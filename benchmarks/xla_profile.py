"""What XLA spends a training step's time on, on a CPU.

Each instruction of the compiled step is an event of JAX's profiler. On one core, where
instructions run one after another, their times add up to that of the step.
"""

import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%([\w.-]+) = (.+?) ([a-z][\w-]*)\(")
_CALLED = re.compile(r"calls=%([\w.-]+)")
_ORIGIN = re.compile(r'op_name="([^"]*)"')
# JAX's words for the two passes, and parts of origins that say nothing.
_PASSES = re.compile(r"jit\(train_step\)/|transpose\(|jvp\(|\)")
_FRAME = re.compile(
    r"albert_\w+/|while/body/|closed_call/|checkpoint/|rematted_"
    r"computation/|group_\d_block_\d/"
)
_PRODUCT = "product of matrices"


@dataclass(frozen=True)
class Instruction:
    """An instruction of a compiled program.

    Args:
        kind: string. What it does, `"product of matrices"` if that is part of it.
        shape: string. Its result.
        origin: string. The layer and the operation that it comes from.
    """

    kind: str
    shape: str
    origin: str


def read_program(text: str) -> dict[str, Instruction]:
    """Read the instructions of XLA's text of a program.

    Example:
        >>> text = '''
        ... %product (a: f32[2,2]) -> f32[2,2] {
        ...   ROOT %dot.1 = f32[2,2]{1,0} dot(%a, %a), lhs_contracting_dims={1}
        ... }
        ... ENTRY %main {
        ...   %fusion.2 = f32[2,2]{1,0} fusion(%b), kind=kCustom, calls=%product
        ...   %copy.3 = f32[2,2]{0,1} copy(%fusion.2), metadata={op_name="f/x"}
        ... }'''
        >>> found = read_program(text)
        >>> found["fusion.2"].kind, found["copy.3"].kind, found["copy.3"].origin
        ('product of matrices', 'copy', 'f/x')
    """
    found, parts, computation = {}, {}, ""
    for line in text.splitlines():
        if line.endswith("{") and not line.startswith(" "):
            computation = line.removeprefix("ENTRY ").split()[0].lstrip("%")
            parts[computation] = set()
        if (match := _INSTRUCTION.match(line)) is None:
            continue
        name, shape, code = match.groups()
        parts.setdefault(computation, set()).add(code)
        called = _CALLED.search(line)
        inside = parts.get(called[1], set()) if called else set()
        origin = _ORIGIN.search(line)
        found[name] = Instruction(
            _kind(name, code, inside), shape, _short(origin[1] if origin else "")
        )
    return found


def _kind(name: str, code: str, inside: set[str]) -> str:
    if "dot" in inside | {code}:
        return _PRODUCT
    if "reduce" in inside | {code}:
        return "sum or maximum"
    if code == "fusion" and (
        "copy" in inside or name.startswith(("copy", "transpose"))
    ):
        return "copy"
    return "element by element" if code == "fusion" else code


def _short(origin: str) -> str:
    is_backward = "transpose(" in origin
    words = _FRAME.sub("", _PASSES.sub("", origin))
    return f"{words}, backward" if is_backward else words


def seconds_of(events: Iterable[tuple[str, float, float]]) -> dict[str, float]:
    """Return the time of each instruction itself, without those that it calls.

    Args:
        events: Names, starts and durations in nanoseconds, of one thread.

    Example:
        >>> seconds_of([("while", 0, 1e9), ("dot", 0, 25e7), ("dot", 5e8, 25e7)])
        {'while': 0.5, 'dot': 0.5}
    """
    found: dict[str, float] = {}
    running: list[tuple[str, float]] = []
    for name, start, duration in sorted(events, key=lambda e: (e[1], -e[2])):
        while running and running[-1][1] <= start:
            running.pop()
        found[name] = found.get(name, 0.0) + duration / 1e9
        if running:
            found[running[-1][0]] -= duration / 1e9
        running.append((name, start + duration))
    return found


def trace(run: Any) -> tuple[dict[str, float], dict[str, int]]:
    """Return the seconds and the number of runs of each instruction during a call."""
    import jax

    seconds: dict[str, float] = {}
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            run()
        (path,) = Path(folder).rglob("*.xplane.pb")
        data = jax.profiler.ProfileData.from_file(str(path))
    for plane in data.planes:
        for line in plane.lines:
            events = [
                (event.name, event.start_ns, event.duration_ns)
                for event in line.events
                if any(key == "hlo_op" for key, _ in event.stats)
            ]
            for name, value in seconds_of(events).items():
                seconds[name] = seconds.get(name, 0.0) + value
            for name, *_ in events:
                counts[name] = counts.get(name, 0) + 1
    return seconds, counts


def profile_step(model: Any, batch: Any, repeats: int, shown: int = 25) -> None:
    """Print the time of a training step by kind, and its longest instructions.

    Args:
        model: A compiled `AlbertMaskedLM` on JAX.
        batch: Ids, targets and weights.
        repeats: int. The number of steps.
        shown: int. The number of instructions. Defaults to `25`.
    """
    import jax
    from lower_step import lower_training_step

    _, y, _ = batch
    rows, length = batch[0]["token_ids"].shape
    compiled = lower_training_step(model, rows, length, y.shape[1]).compile()
    state = tuple(
        [variable.value for variable in variables]
        for variables in (
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
            model.metrics_variables,
        )
    )
    state, batch = jax.device_put((state, batch), compiled.input_shardings[0])

    def run(steps: int) -> None:
        nonlocal state
        for _ in range(steps):
            _, state = compiled(state, batch)
        jax.block_until_ready(state)

    run(1)
    seconds, counts = trace(lambda: run(repeats))
    print_times(read_program(compiled.as_text()), seconds, counts, repeats, shown)


def print_times(
    program: dict[str, Instruction],
    seconds: dict[str, float],
    counts: dict[str, int],
    steps: int,
    shown: int,
) -> None:
    """Print both tables, for one step."""
    total = sum(seconds.values())
    unknown = Instruction("other", "", "")
    kinds: dict[str, list[float]] = {}
    for name, value in seconds.items():
        kind = kinds.setdefault(program.get(name, unknown).kind, [0.0, 0])
        kind[0] += value
        kind[1] += counts[name]
    print(f"{total / steps:.3f} s of a step, on all threads\n")
    print("| kind | ms | share | runs |\n|---|---|---|---|")
    for kind, (value, count) in sorted(kinds.items(), key=lambda item: -item[1][0]):
        ms = value / steps * 1e3
        print(f"| {kind} | {ms:.1f} | {value / total:.1%} | {count / steps:.0f} |")
    print(
        "\n| instruction | ms | share | runs | result | of |\n|---|---|---|---|---|---|"
    )
    for name in sorted(seconds, key=seconds.__getitem__, reverse=True)[:shown]:
        each = program.get(name, unknown)
        shape = re.sub(r"\{[^}]*\}", "", each.shape)
        print(
            f"| {name} | {seconds[name] / steps * 1e3:.1f} "
            f"| {seconds[name] / total:.1%} | {counts[name] / steps:.0f} "
            f"| {shape[:40]} | {each.origin[-70:]} |"
        )
