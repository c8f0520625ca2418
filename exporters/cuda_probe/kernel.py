"""What the GPU computes, as PTX text and once more in Python. Pure; the two are compared by a test without a GPU.

Each 32-bit word becomes a mixture of itself, its place and a seed that is new in each run, so neither memory that was
left from an earlier run nor an echo of the input passes. The last step depends on which block of words it is in: an
address line that is stuck makes blocks equal that must differ. Within a block all depends on the place in it alone, so
the host computes one block and gets the others by one XOR.
"""

import struct
from collections.abc import Iterator

ENTRY = "nodemend_probe"
BLOCK_WORDS = 16384
BLOCK_BYTES = 4 * BLOCK_WORDS
THREADS = 256
"""Threads of one thread block; BLOCK_WORDS is a multiple of it."""

_BLOCK_FORMAT = f"<{BLOCK_WORDS}I"
"""NVIDIA's GPUs are little-endian."""
_ROUNDS = 4
_PLACE_FACTOR = 2654435761
_BLOCK_FACTOR = 2654435769
_STEP_FACTOR, _STEP_SUMMAND = 1664525, 1013904223
_MASK = 0xFFFFFFFF

_TARGETS = (
    (30, "3.1"),
    (35, "3.1"),
    (50, "4.0"),
    (52, "4.1"),
    (60, "5.0"),
    (61, "5.0"),
    (70, "6.0"),
    (75, "6.3"),
    (80, "7.0"),
    (86, "7.1"),
    (89, "7.8"),
    (90, "7.8"),
    (100, "8.6"),
    (120, "8.7"),
)
"""Compute capability (90 is 9.0) and the PTX ISA version that brought it, from the release notes in NVIDIA's PTX ISA
manual (docs.nvidia.com/cuda/parallel-thread-execution). A driver that runs such a GPU compiles that version, however
old the driver is; and a newer GPU accepts any older target, so capabilities between the lines need none of their own."""

_ROUND = f"""\
    mad.lo.u32 %word, %word, {_STEP_FACTOR}, {_STEP_SUMMAND};
    shr.u32 %part, %word, 15;
    xor.b32 %word, %word, %part;
"""

_BODY = f"""\
.address_size 64

.visible .entry {ENTRY}(
    .param .u64 words,
    .param .u32 count,
    .param .u32 seed
)
{{
    .reg .pred %beyond;
    .reg .b32 %index, %part, %count, %seed, %word;
    .reg .b64 %base, %offset;

    mov.u32 %index, %ctaid.x;
    mov.u32 %part, %ntid.x;
    mul.lo.u32 %index, %index, %part;
    mov.u32 %part, %tid.x;
    add.u32 %index, %index, %part;
    ld.param.u32 %count, [count];
    setp.ge.u32 %beyond, %index, %count;
    @%beyond bra done;

    ld.param.u64 %base, [words];
    cvta.to.global.u64 %base, %base;
    mul.wide.u32 %offset, %index, 4;
    add.u64 %base, %base, %offset;
    ld.global.u32 %word, [%base];

    ld.param.u32 %seed, [seed];
    and.b32 %part, %index, {BLOCK_WORDS - 1};
    mad.lo.u32 %part, %part, {_PLACE_FACTOR}, %seed;
    xor.b32 %word, %word, %part;
{_ROUND * _ROUNDS}\
    shr.u32 %part, %index, {BLOCK_WORDS.bit_length() - 1};
    mul.lo.u32 %part, %part, {_BLOCK_FACTOR};
    xor.b32 %word, %word, %part;
    st.global.u32 [%base], %word;
done:
    ret;
}}
"""


def ptx_texts(capability: int) -> Iterator[str]:
    """The kernel for a GPU of this compute capability (90 is 9.0), the likeliest to be accepted first.

    First the target next to the GPU's own, in the oldest PTX version that has it; then older targets, newest first, for
    a GPU that only a later PTX version knows exactly.
    """
    for target, version in reversed(_TARGETS):
        if target <= capability:
            yield f".version {version}\n.target sm_{target}\n{_BODY}"


def input_block(seed: int) -> bytes:
    """One block of words to copy in, repeated over the whole memory; not the same in two runs."""
    word, words = seed & _MASK, []
    for _ in range(BLOCK_WORDS):
        word = (word * _STEP_FACTOR + _STEP_SUMMAND) & _MASK
        words.append(word ^ (word >> 16))
    return struct.pack(_BLOCK_FORMAT, *words)


def expected_blocks(block: bytes, seed: int, count: int) -> Iterator[bytes]:
    """What `count` blocks of input `block` must have become, one after the other."""
    words = enumerate(struct.unpack(_BLOCK_FORMAT, block))
    first = struct.pack(_BLOCK_FORMAT, *(mixed(place, word, seed) for place, word in words))
    common = int.from_bytes(first, "little")
    ones = int.from_bytes((1).to_bytes(4, "little") * BLOCK_WORDS, "little")
    for number in range(count):
        yield (common ^ (ones * (number * _BLOCK_FACTOR & _MASK))).to_bytes(BLOCK_BYTES, "little")


def mixed(place: int, word: int, seed: int) -> int:
    """What becomes of a word at `place` of the first block."""
    word ^= (place * _PLACE_FACTOR + seed) & _MASK
    for _ in range(_ROUNDS):
        word = (word * _STEP_FACTOR + _STEP_SUMMAND) & _MASK
        word ^= word >> 15
    return word
