"""The steps of a probe on the one device that this process sees, in order. Judges nothing: it tells where it stopped.

A step is announced before it starts, so that a parent knows what a hung child was doing.
"""

import ctypes
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any

from exporters.cuda_probe import kernel
from exporters.cuda_probe.binding import Cuda, CudaError, FunctionMissingError, LibraryMissingError
from exporters.readings import PcieLink

_REFUSED_TEXT = frozenset({209, 218, 222})
"""NO_BINARY_FOR_GPU, INVALID_PTX, UNSUPPORTED_PTX_VERSION: another target or version may be taken."""
_PIECE_BLOCKS = 64
"""How much is copied at once: 4 MiB."""
_BANDWIDTH_SECONDS = 0.4
_COPIES = 8
"""Between two looks at the clock."""
_LINK_SAMPLE_AFTER = 0.1
"""A link that idled needs a moment of copying to reach its speed."""


class Step(StrEnum):
    """Where a probe is."""

    ENUMERATE = "enumerate"
    START = "start"
    LOAD_LIBRARY = "load_library"
    INIT = "init"
    FIND = "find"
    CONTEXT = "context"
    ALLOCATE = "allocate"
    COPY_IN = "copy_in"
    COMPILE = "compile"
    LAUNCH = "launch"
    SYNCHRONIZE = "synchronize"
    COPY_OUT = "copy_out"
    COMPARE = "compare"
    BANDWIDTH = "bandwidth"
    READ_LINK = "read_link"
    FREE = "free"
    DONE = "done"


@dataclass(slots=True)
class Outcome:
    """What a run found, as its JSON record. It is complete when `step` is `done`; else something stopped it there."""

    step: Step = Step.START
    uuid: str | None = None
    model: str = ""
    error_code: int | None = None
    error_name: str = ""
    missing: str = ""
    """The library or function that is not there."""
    wrong_words: int = 0
    first_wrong: int | None = None
    link: PcieLink | None = None
    bandwidth: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """For json.dumps."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Job:
    """What to do. `link_sampler` makes, of a PCI bus id, what is asked for the link while data is being copied."""

    seed: int
    memory_mib: int = 64
    library: str = "libcuda.so.1"
    bandwidth: bool = False
    link_sampler: Callable[[str], Callable[[], PcieLink | None]] = lambda _: lambda: None


class Probe:
    """One run. `announce` is told each step before it starts."""

    def __init__(self, job: Job, announce: Callable[[Step], None]) -> None:
        self.job = job
        self.outcome = Outcome()
        self._announce = announce

    @contextmanager
    def _step(self, step: Step) -> Iterator[None]:
        self.outcome.step = step
        self._announce(step)
        started = time.monotonic()
        yield
        spent = self.outcome.seconds.get(step, 0.0) + time.monotonic() - started
        self.outcome.seconds[step] = round(spent, 6)

    def run(self) -> Outcome:
        """All steps, or as far as they go."""
        try:
            self._run()
        except LibraryMissingError as error:
            self.outcome.missing = str(error)
        except FunctionMissingError as error:
            self.outcome.missing = f"function {error}"
        except CudaError as error:
            self.outcome.error_code, self.outcome.error_name = error.code, error.name
        return self.outcome

    def _run(self) -> None:
        with self._step(Step.LOAD_LIBRARY):
            cuda = Cuda(self.job.library)
        with self._step(Step.INIT):
            cuda.init()
        with self._step(Step.FIND):
            device = cuda.device(0)
            self.outcome.model = cuda.model(device)
            self.outcome.uuid = cuda.uuid(device)
        with self._step(Step.CONTEXT):
            own = cuda.enter_context(device)
        with self._step(Step.ALLOCATE):
            memory = cuda.allocate(self._size)
        self._compute(cuda, device, memory)
        if self.outcome.wrong_words:
            return
        if self.job.bandwidth:
            self._measure(cuda, memory, cuda.pci_bus_id(device))
        with self._step(Step.FREE):
            cuda.free(memory)
            cuda.leave_context(device, own)
        self._finish()

    def _finish(self) -> None:
        self.outcome.step = Step.DONE
        self._announce(Step.DONE)

    @property
    def _blocks(self) -> int:
        return self.job.memory_mib * (1 << 20) // kernel.BLOCK_BYTES

    @property
    def _size(self) -> int:
        return self._blocks * kernel.BLOCK_BYTES

    def _compute(self, cuda: Cuda, device: int, memory: int) -> None:
        """In pieces, so that the host needs little memory."""
        block = kernel.input_block(self.job.seed)
        piece = block * min(_PIECE_BLOCKS, self._blocks)
        with self._step(Step.COPY_IN):
            for offset in range(0, self._size, len(piece)):
                cuda.copy_in(memory + offset, piece[: self._size - offset])
        with self._step(Step.COMPILE):
            function = _compile(cuda, cuda.capability(device))
        count = self._blocks * kernel.BLOCK_WORDS
        values = (ctypes.c_uint64(memory), ctypes.c_uint32(count), ctypes.c_uint32(self.job.seed))
        with self._step(Step.LAUNCH):
            cuda.launch(function, count // kernel.THREADS, kernel.THREADS, values)
        with self._step(Step.SYNCHRONIZE):
            cuda.synchronize()
        self._check(cuda, memory, kernel.expected_blocks(block, self.job.seed, self._blocks))

    def _check(self, cuda: Cuda, memory: int, expected_blocks: Iterator[bytes]) -> None:
        for first in range(0, self._blocks, _PIECE_BLOCKS):
            count = min(_PIECE_BLOCKS, self._blocks - first)
            result = ctypes.create_string_buffer(count * kernel.BLOCK_BYTES)
            with self._step(Step.COPY_OUT):
                cuda.copy_out(memory + first * kernel.BLOCK_BYTES, result)
            with self._step(Step.COMPARE):
                self._compare(memoryview(result), islice(expected_blocks, count), first)

    def _compare(self, result: memoryview, expected_blocks: Iterable[bytes], first: int) -> None:
        size = kernel.BLOCK_BYTES
        for number, expected in enumerate(expected_blocks):
            got = bytes(result[number * size : (number + 1) * size])
            if got == expected:
                continue
            wrong = [i for i in range(0, size, 4) if got[i : i + 4] != expected[i : i + 4]]
            if self.outcome.first_wrong is None:
                self.outcome.first_wrong = (first + number) * kernel.BLOCK_WORDS + wrong[0] // 4
            self.outcome.wrong_words += len(wrong)

    def _measure(self, cuda: Cuda, memory: int, pci_bus_id: str) -> None:
        """Copy in for a while, and look at the link meanwhile. Pageable memory: the rate is a lower bound of the link's."""
        with self._step(Step.READ_LINK):
            sample = self.job.link_sampler(pci_bus_id)
        data = bytes(self._size)
        seconds, copied = 0.0, 0
        while seconds < _BANDWIDTH_SECONDS:
            with self._step(Step.BANDWIDTH):
                started = time.monotonic()
                for _ in range(_COPIES):
                    cuda.copy_in(memory, data)
                    copied += len(data)
                seconds += time.monotonic() - started
            if self.outcome.link is None and seconds >= _LINK_SAMPLE_AFTER:
                with self._step(
                    Step.READ_LINK
                ):  # of its own, since NVML may hang where CUDA does not
                    self.outcome.link = sample()
        self.outcome.bandwidth = copied / seconds


def _compile(cuda: Cuda, capability: int) -> int:
    """The kernel in the first form that the driver takes; its last refusal if it takes none."""
    refusal: CudaError | None = None
    for text in kernel.ptx_texts(capability):
        try:
            return cuda.load_function(text, kernel.ENTRY)
        except CudaError as error:
            if error.code not in _REFUSED_TEXT:
                raise
            refusal = error
    raise refusal or FunctionMissingError(f"kernel for compute capability {capability}")
