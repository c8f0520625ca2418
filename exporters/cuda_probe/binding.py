"""The few functions of the CUDA driver API that the probe calls, by ctypes. Every call may hang: only for a child.

Signatures and codes as in NVIDIA's CUDA Driver API manual. The library comes with the driver; no toolkit is needed.
Judges nothing: a failure is raised with the name of the call and the code that it returned.
"""

import contextlib
import ctypes
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_int, c_uint, c_void_p, create_string_buffer

LIBRARY = "libcuda.so.1"
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR."""
_NAMES = {
    1: "CUDA_ERROR_INVALID_VALUE",
    2: "CUDA_ERROR_OUT_OF_MEMORY",
    3: "CUDA_ERROR_NOT_INITIALIZED",
    46: "CUDA_ERROR_DEVICE_UNAVAILABLE",
    100: "CUDA_ERROR_NO_DEVICE",
    101: "CUDA_ERROR_INVALID_DEVICE",
    209: "CUDA_ERROR_NO_BINARY_FOR_GPU",
    214: "CUDA_ERROR_ECC_UNCORRECTABLE",
    218: "CUDA_ERROR_INVALID_PTX",
    221: "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
    222: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS",
    702: "CUDA_ERROR_LAUNCH_TIMEOUT",
    719: "CUDA_ERROR_LAUNCH_FAILED",
    802: "CUDA_ERROR_SYSTEM_NOT_READY",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    999: "CUDA_ERROR_UNKNOWN",
}
"""For drivers that cannot name an error, which cuGetErrorName does since CUDA 6."""


class LibraryMissingError(Exception):
    """libcuda cannot be loaded: no driver, or the container was not given its compute part."""


class FunctionMissingError(Exception):
    """This driver is older than the function, and than each that could stand in for it."""


class CudaError(Exception):
    """A call that returned something else than CUDA_SUCCESS."""

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"{call}: {code} {name}")
        self.call, self.code, self.name = call, code, name


class Cuda:
    """libcuda, loaded. Handles are plain integers. `path` is a file or a name that the dynamic linker finds."""

    def __init__(self, path: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise LibraryMissingError(str(error)) from error

    def _call(self, names: Sequence[str], *arguments: object) -> None:
        """Call the first of `names` that this driver has."""
        for name in names:
            function = getattr(self._library, name, None)
            if function is None:
                continue
            if (code := int(function(*arguments))) != 0:
                raise CudaError(name, code, self.error_name(code))
            return
        raise FunctionMissingError(names[0])

    def error_name(self, code: int) -> str:
        """NVIDIA's name of a code: CUDA_ERROR_ and a word."""
        text = c_char_p()
        with contextlib.suppress(AttributeError):
            if self._library.cuGetErrorName(c_int(code), byref(text)) == 0 and text.value:
                return text.value.decode("ascii", "replace")
        return _NAMES.get(code, f"CUDA_ERROR_{code}")

    def init(self) -> None:
        self._call(["cuInit"], c_uint(0))

    def device_count(self) -> int:
        count = c_int()
        self._call(["cuDeviceGetCount"], byref(count))
        return count.value

    def device(self, ordinal: int) -> int:
        device = c_int()
        self._call(["cuDeviceGet"], byref(device), c_int(ordinal))
        return device.value

    def model(self, device: int) -> str:
        text = create_string_buffer(256)
        self._call(["cuDeviceGetName"], text, c_int(len(text)), c_int(device))
        return text.value.decode("utf-8", "replace")

    def uuid(self, device: int) -> str | None:
        """The bare UUID, without `GPU-` or `MIG-`; None from a driver that does not tell that of a MIG device."""
        raw = create_string_buffer(16)
        try:
            self._call(["cuDeviceGetUuid_v2"], raw, c_int(device))
        except FunctionMissingError:
            return None
        text = raw.raw.hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def pci_bus_id(self, device: int) -> str:
        text = create_string_buffer(32)
        self._call(["cuDeviceGetPCIBusId"], text, c_int(len(text)), c_int(device))
        return text.value.decode("ascii", "replace")

    def capability(self, device: int) -> int:
        """The compute capability, times ten: 90 is 9.0."""
        values = []
        for attribute in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR):
            value = c_int()
            self._call(["cuDeviceGetAttribute"], byref(value), c_int(attribute), c_int(device))
            values.append(value.value)
        return 10 * values[0] + values[1]

    def enter_context(self, device: int) -> int | None:
        """Make a context current: the device's primary one, as programs use it; before CUDA 7 one of our own."""
        context = c_void_p()
        try:
            self._call(["cuDevicePrimaryCtxRetain"], byref(context), c_int(device))
        except FunctionMissingError:
            self._call(["cuCtxCreate_v2", "cuCtxCreate"], byref(context), c_uint(0), c_int(device))
            return context.value
        self._call(["cuCtxSetCurrent"], context)
        return None

    def leave_context(self, device: int, own: int | None) -> None:
        """Give up what `enter_context` returned."""
        if own is None:
            names = ["cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease"]
            self._call(names, c_int(device))
        else:
            self._call(["cuCtxDestroy_v2", "cuCtxDestroy"], c_void_p(own))

    def allocate(self, size: int) -> int:
        memory = ctypes.c_uint64()
        self._call(["cuMemAlloc_v2"], byref(memory), ctypes.c_size_t(size))
        return memory.value

    def free(self, memory: int) -> None:
        self._call(["cuMemFree_v2"], ctypes.c_uint64(memory))

    def copy_in(self, memory: int, data: bytes) -> None:
        size = ctypes.c_size_t(len(data))
        self._call(["cuMemcpyHtoD_v2"], ctypes.c_uint64(memory), data, size)

    def copy_out(self, memory: int, into: "ctypes.Array[ctypes.c_char]") -> None:
        size = ctypes.c_size_t(len(into))
        self._call(["cuMemcpyDtoH_v2"], into, ctypes.c_uint64(memory), size)

    def load_function(self, ptx: str, name: str) -> int:
        """Have the driver compile `ptx`; the function `name` of it."""
        module, function = c_void_p(), c_void_p()
        self._call(["cuModuleLoadData"], byref(module), ptx.encode("ascii") + b"\0")
        self._call(["cuModuleGetFunction"], byref(function), module, name.encode("ascii"))
        return function.value or 0

    def launch(self, function: int, blocks: int, threads: int, values: Sequence[object]) -> None:
        """Start `function` with `values`, each a ctypes value as wide as the kernel's parameter."""
        pointers = (c_void_p * len(values))(
            *(ctypes.cast(ctypes.pointer(each), c_void_p) for each in values)  # type: ignore[type-var]  # any ctypes value
        )
        sizes = [c_uint(each) for each in (blocks, 1, 1, threads, 1, 1, 0)]
        self._call(["cuLaunchKernel"], c_void_p(function), *sizes, c_void_p(), pointers, c_void_p())

    def synchronize(self) -> None:
        self._call(["cuCtxSynchronize"])
