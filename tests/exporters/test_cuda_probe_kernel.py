"""The kernel's PTX text against its twin in Python, by a small interpreter: no GPU is needed to know that they agree."""

import re
import struct
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporters.cuda_probe import kernel

MASK = 0xFFFFFFFF
U32 = st.integers(0, MASK)


class Interpreter:
    """One thread of the kernel. It knows just the instructions that the kernel has, and refuses others."""

    def __init__(self, text: str, words: list[int], seed: int) -> None:
        body = re.sub(r"\.reg[^;]*;", "", text.split("{", 1)[1].rsplit("}", 1)[0])
        self.lines = [line.strip() for line in re.split(r"(?<=[;:])\s", body) if line.strip()]
        self.words = words
        self.parameters = {"words": 0, "count": len(words), "seed": seed}

    def run(self, block: int, thread: int) -> None:
        registers: dict[str, int] = {
            "%ctaid.x": block,
            "%ntid.x": kernel.THREADS,
            "%tid.x": thread,
        }
        at = 0
        while at < len(self.lines):
            line = self.lines[at]
            jump = re.fullmatch(r"@(%\w+) bra (\w+);", line)
            if jump and registers[jump[1]]:
                at = self.lines.index(f"{jump[2]}:")
            elif not jump and not line.endswith(":"):
                self.execute(line, registers)
            at += 1

    def execute(self, line: str, registers: dict[str, int]) -> None:
        operation, _, rest = line.rstrip(";").partition(" ")
        operands = [each.strip() for each in rest.split(",")]
        if operation == "ret":
            return
        if operation == "st.global.u32":
            self.words[registers[operands[0].strip("[]")] // 4] = registers[operands[1]]
            return
        target, sources = operands[0], operands[1:]
        if operation == "ld.global.u32":
            registers[target] = self.words[registers[sources[0].strip("[]")] // 4]
        elif operation.startswith("ld.param"):
            registers[target] = self.parameters[sources[0].strip("[]")]
        else:
            values = [registers[each] if each[0] == "%" else int(each) for each in sources]
            registers[target] = OPERATIONS[operation](*values)


OPERATIONS: Mapping[str, Callable[..., int]] = {
    "mov.u32": lambda a: a,
    "add.u32": lambda a, b: (a + b) & MASK,
    "add.u64": lambda a, b: a + b,
    "mul.lo.u32": lambda a, b: a * b & MASK,
    "mul.wide.u32": lambda a, b: a * b,
    "mad.lo.u32": lambda a, b, c: (a * b + c) & MASK,
    "shr.u32": lambda a, b: a >> b,
    "and.b32": lambda a, b: a & b,
    "xor.b32": lambda a, b: a ^ b,
    "setp.ge.u32": lambda a, b: int(a >= b),
    "cvta.to.global.u64": lambda a: a,
}


def text_for(capability: int) -> str:
    return next(iter(kernel.ptx_texts(capability)))


@settings(max_examples=20, deadline=None)
@given(seed=U32, place=st.integers(0, 4 * kernel.BLOCK_WORDS - 1))
def test_the_text_computes_what_the_host_expects(seed: int, place: int) -> None:
    block = kernel.input_block(seed)
    words = list(struct.unpack(f"<{kernel.BLOCK_WORDS}I", block)) * 4
    wanted = list(kernel.expected_blocks(block, seed, 4))
    number, inside = divmod(place, kernel.BLOCK_WORDS)

    Interpreter(text_for(90), words, seed).run(*divmod(place, kernel.THREADS))

    assert words[place] == struct.unpack_from("<I", wanted[number], 4 * inside)[0]


def test_a_thread_beyond_the_end_touches_nothing() -> None:
    words = [7] * kernel.THREADS

    Interpreter(text_for(90), words, 1).run(1, 0)

    assert words == [7] * kernel.THREADS


@settings(max_examples=20, deadline=None)
@given(seed=U32)
def test_no_two_blocks_are_the_same(seed: int) -> None:
    block = kernel.input_block(seed)

    assert len({*kernel.expected_blocks(block, seed, 64), block}) == 65


def test_two_seeds_share_neither_input_nor_result() -> None:
    first, second = kernel.input_block(1), kernel.input_block(2)

    assert first != second
    assert next(kernel.expected_blocks(first, 1, 1)) != next(kernel.expected_blocks(first, 2, 1))


@pytest.mark.parametrize(
    ("capability", "head"),
    [
        (35, ".version 3.1\n.target sm_35\n"),
        (62, ".version 5.0\n.target sm_61\n"),
        (90, ".version 7.8\n.target sm_90\n"),
        (103, ".version 8.6\n.target sm_100\n"),
        (121, ".version 8.7\n.target sm_120\n"),
        (150, ".version 8.7\n.target sm_120\n"),
    ],
)
def test_a_gpu_gets_the_nearest_target_that_is_not_above_it(capability: int, head: str) -> None:
    assert text_for(capability).startswith(head)


def test_older_targets_follow_down_to_the_oldest() -> None:
    targets = [text.splitlines()[1] for text in kernel.ptx_texts(75)]

    assert targets == [f".target sm_{each}" for each in (75, 70, 61, 60, 52, 50, 35, 30)]


def test_a_gpu_older_than_all_targets_has_no_text() -> None:
    assert list(kernel.ptx_texts(20)) == []
