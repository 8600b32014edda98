"""The cycles of a program, as estimated by the TPU compiler.

The optimized program has an estimate for most of its instructions. It is the compiler's
own, by which it chooses between ways to compute; nothing has run.
"""

import re
from dataclasses import dataclass, field

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) .*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = .*? ([a-z][a-z\d-]*)\((?=%|\))")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_CALLED = re.compile(r"(body|condition|calls|to_apply)=%?([\w.-]+)")
_CONSTANT = re.compile(r"^\s+%?([\w.-]+) = s32\[\]\S* constant\((\d+)\)")
_BELOW = re.compile(r"^\s+ROOT .* compare\([^,]*, %?([\w.-]+)\), direction=LT")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
# Parts of a fusion and of a sum, which have no estimates of their own.
_WHOLE = {"fusion", "reduce", "reduce-window", "scatter", "select-and-scatter", "sort"}
# Moves of data by index, of which the compiler has no estimate.
_MOVES = ("gather", "scatter")


@dataclass
class Cycles:
    """The estimated cycles of a program.

    Args:
        total: int. Of all instructions, those in loops as often as they run.
        loops: int. The part of it in loops.
        moves: int. The runs of gathers and scatters, which `total` does not contain.
    """

    total: int = 0
    loops: int = 0
    moves: int = 0


@dataclass
class _Computation:
    """The instructions of a computation, except for those that it calls."""

    cycles: int = 0
    moves: int = 0
    # Those of which one runs, once.
    calls: list[tuple[str, ...]] = field(default_factory=list)
    loops: list[tuple[int | None, str, str]] = field(default_factory=list)
    constants: dict[str, int] = field(default_factory=dict)
    # Of a loop's condition: the number that its counter, which starts at 0, is below.
    bound: int | None = None


def count_cycles(text: str) -> Cycles:
    """Sum the estimates of all instructions of a program.

    A loop counts as often as it runs, and of several branches the longest.

    Args:
        text: string. XLA's text of the optimized program.

    Returns:
        `Cycles`.

    Raises:
        ValueError: If there are no estimates, as in a program for another device, or
            if a loop does not say how often it runs.
    """
    computations, main = _read(text)
    if not any(each.cycles for each in computations.values()):
        msg = "The program has no estimated cycles. Was it compiled for a TPU?"
        raise ValueError(msg)
    return _sum(computations, main)


def _sum(computations: dict[str, _Computation], name: str) -> Cycles:
    own = computations[name]
    found = Cycles(own.cycles, 0, own.moves)
    for names in own.calls:
        _include(
            found,
            max((_sum(computations, n) for n in names), key=lambda each: each.total),
        )
    for known, body, condition in own.loops:
        times = computations[condition].bound if known is None else known
        if times is None:
            msg = f"How often does the loop of {body!r} run? {condition!r} omits it."
            raise ValueError(msg)
        for part in (body, condition):
            _include(found, _sum(computations, part), times, in_loop=True)
    return found


def _include(
    found: Cycles, part: Cycles, times: int = 1, *, in_loop: bool = False
) -> None:
    found.total += times * part.total
    found.loops += times * (part.total if in_loop else part.loops)
    found.moves += times * part.moves


def _read(text: str) -> tuple[dict[str, _Computation], str]:
    """Return all computations by name, and the name of the first to run."""
    computations: dict[str, _Computation] = {}
    main, current = "", _Computation()
    for line in text.splitlines():
        if (match := _COMPUTATION.match(line)) is not None:
            current = computations[match[2]] = _Computation()
            main = match[2] if match[1] else main
        elif (match := _CONSTANT.match(line)) is not None:
            current.constants[match[1]] = int(match[2])
        elif (match := _INSTRUCTION.match(line)) is not None:
            _add(current, match[1], match[2], line)
            if (below := _BELOW.match(line)) is not None:
                current.bound = current.constants.get(below[1])
    return computations, main


def _add(computation: _Computation, name: str, kind: str, line: str) -> None:
    if (cycles := _CYCLES.search(line)) is not None:
        computation.cycles += int(cycles[1])
    elif kind in _WHOLE:
        computation.moves += kind == "fusion" and name.startswith(_MOVES)
    elif kind == "while":
        called = dict(_CALLED.findall(line))
        trips = _TRIPS.search(line)
        times = int(trips[1]) if trips else None
        computation.loops.append((times, called["body"], called["condition"]))
    elif (branches := _BRANCHES.search(line)) is not None:
        computation.calls.append(tuple(re.findall(r"[\w.-]+", branches[1])))
    else:
        computation.calls += [(called,) for _, called in _CALLED.findall(line)]
