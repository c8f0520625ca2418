/* A fake libcuda.so.1: the functions that Nodemend's GPU probe calls, on the host's memory, as the scenario says.
 *
 * It knows the one kernel of the probe by its name and computes the same words by itself, so that a wrong kernel text
 * shows only in the test that interprets that text. Signatures and codes are those of NVIDIA's documented CUDA driver API.
 * With -DOLD_DRIVER the functions that came later than about CUDA 6 are not there.
 */
#include <stdint.h>

#include "scenario.h"

#define CUDA_SUCCESS 0
#define CUDA_ERROR_INVALID_VALUE 1
#define CUDA_ERROR_OUT_OF_MEMORY 2
#define CUDA_ERROR_NOT_INITIALIZED 3
#define CUDA_ERROR_NO_DEVICE 100
#define CUDA_ERROR_INVALID_DEVICE 101
#define CUDA_ERROR_INVALID_CONTEXT 201
#define CUDA_ERROR_NO_BINARY_FOR_GPU 209
#define CUDA_ERROR_UNSUPPORTED_PTX_VERSION 222
#define CUDA_ERROR_JIT_COMPILATION_DISABLED 223
#define CUDA_ERROR_NOT_FOUND 500

typedef unsigned long long pointer;

static struct {
    int gpu, slice;
} visible[MAX_GPUS * SLICES];
static int visible_count, initialised, current = -1;
static void *context_mark = &current;

#define BEHAVE(device)                                                              \
    do {                                                                            \
        int code_ = behaviour(__func__, device);                                    \
        if (code_)                                                                  \
            return code_;                                                           \
        if (!initialised)                                                           \
            return CUDA_ERROR_NOT_INITIALIZED;                                      \
    } while (0)

static int current_gpu(void) { return current < 0 ? -1 : visible[current].gpu; }

static void show(int gpu, int slice)
{
    visible[visible_count].gpu = gpu;
    visible[visible_count++].slice = slice;
}

/* Whether CUDA_VISIBLE_DEVICES, if set, names this device: by its UUID, or by its place among all of them. */
static int is_visible(const char *wanted, const char *uuid, int slice, int ordinal)
{
    if (!wanted)
        return slice <= 1;
    if (*wanted >= '0' && *wanted <= '9')
        return atoi(wanted) == ordinal;
    return strcmp(wanted, uuid) == 0;
}

/* A process sees one slice at most; with MIG on, the whole GPU is no device. */
static void enumerate(void)
{
    const char *wanted = getenv("CUDA_VISIBLE_DEVICES");
    int gpu, slice, ordinal = 0;
    char uuid[64];

    for (gpu = 0; gpu < gpu_count(); gpu++) {
        int mig = (int)setting("mig", gpu, 0);
        int last = mig ? (int)setting("slices", gpu, 0) : 0;

        if (setting("cuda_blind", gpu, 0))
            continue;
        for (slice = mig ? 1 : 0; slice <= last; slice++) {
            uuid_text(gpu, slice, uuid, sizeof uuid);
            if (is_visible(wanted, uuid, slice, ordinal++))
                show(gpu, slice);
        }
    }
}

int cuInit(unsigned int flags)
{
    int code;
    const char *wanted = getenv("CUDA_VISIBLE_DEVICES");

    (void)flags;
    enumerate();
    code = behaviour(__func__, visible_count == 1 && wanted ? visible[0].gpu : -1);
    if (code)
        return code;
    if (visible_count == 0)
        return CUDA_ERROR_NO_DEVICE;
    initialised = 1;
    return CUDA_SUCCESS;
}

int cuDriverGetVersion(int *out)
{
    *out = (int)setting("cuda_version", -1, 12080);
    return CUDA_SUCCESS;
}

#ifndef OLD_DRIVER
int cuGetErrorName(int code, const char **out)
{
    static char name[64];

    snprintf(name, sizeof name, "CUDA_ERROR_FAKE_%d", code);
    *out = name;
    return CUDA_SUCCESS;
}

int cuDeviceGetUuid_v2(unsigned char out[16], int device)
{
    BEHAVE(visible[device].gpu);
    uuid_bytes((int)setting("cuda_uuid_of", visible[device].gpu, visible[device].gpu), visible[device].slice, out);
    return CUDA_SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **out, int device)
{
    BEHAVE(visible[device].gpu);
    *out = context_mark;
    return CUDA_SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    BEHAVE(visible[device].gpu);
    return CUDA_SUCCESS;
}

int cuCtxSetCurrent(void *context)
{
    BEHAVE(visible[0].gpu);
    current = context == context_mark ? 0 : -1;
    return CUDA_SUCCESS;
}
#endif

int cuDeviceGetCount(int *out)
{
    BEHAVE(-1);
    *out = visible_count;
    return CUDA_SUCCESS;
}

int cuDeviceGet(int *out, int ordinal)
{
    if (ordinal < 0 || ordinal >= visible_count)
        return CUDA_ERROR_INVALID_DEVICE;
    BEHAVE(visible[ordinal].gpu);
    *out = ordinal;
    return CUDA_SUCCESS;
}

int cuDeviceGetName(char *out, int size, int device)
{
    BEHAVE(visible[device].gpu);
    text_setting("name", visible[device].gpu, "NVIDIA Fake 100", out, (size_t)size);
    return CUDA_SUCCESS;
}

int cuDeviceGetPCIBusId(char *out, int size, int device)
{
    BEHAVE(visible[device].gpu);
    snprintf(out, (size_t)size, "0000:%02X:00.0", (0x3b + visible[device].gpu) & 0xff);
    return CUDA_SUCCESS;
}

#define CAPABILITY_MAJOR 75
#define CAPABILITY_MINOR 76

int cuDeviceGetAttribute(int *out, int attribute, int device)
{
    int capability = (int)setting("capability", visible[device].gpu, 90);

    BEHAVE(visible[device].gpu);
    *out = attribute == CAPABILITY_MAJOR ? capability / 10 : attribute == CAPABILITY_MINOR ? capability % 10 : 0;
    return CUDA_SUCCESS;
}

int cuCtxCreate_v2(void **out, unsigned int flags, int device)
{
    (void)flags;
    BEHAVE(visible[device].gpu);
    current = device;
    *out = context_mark;
    return CUDA_SUCCESS;
}

int cuCtxDestroy_v2(void *context)
{
    (void)context;
    BEHAVE(current_gpu());
    current = -1;
    return CUDA_SUCCESS;
}

int cuMemAlloc_v2(pointer *out, size_t size)
{
    BEHAVE(current_gpu());
    if (current < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = (pointer)(uintptr_t)malloc(size);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

int cuMemFree_v2(pointer memory)
{
    BEHAVE(current_gpu());
    free((void *)(uintptr_t)memory);
    return CUDA_SUCCESS;
}

static int copies;

/* `second.NAME` is what NAME does from its second call on: in the bandwidth loop. */
static int copy(const char *function, void *to, const void *from, size_t size)
{
    char later[64];
    int code;

    snprintf(later, sizeof later, "second.%s", function);
    code = behaviour(copies++ > 1 ? later : function, current_gpu());
    if (code)
        return code;
    if (current < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    setenv("NODEMEND_FAKE_COPIES", "1", 1);
    memcpy(to, from, size);
    return CUDA_SUCCESS;
}

int cuMemcpyHtoD_v2(pointer to, const void *from, size_t size)
{
    int code = copy(__func__, (void *)(uintptr_t)to, from, size);

    if (!code && setting("corrupt_copy_in", current_gpu(), 0))
        ((unsigned char *)(uintptr_t)to)[size / 2] ^= 0x10;
    return code;
}

int cuMemcpyDtoH_v2(void *to, pointer from, size_t size)
{
    int code = copy(__func__, to, (void *)(uintptr_t)from, size);

    if (!code && setting("corrupt_copy_out", current_gpu(), 0))
        ((unsigned char *)to)[size - 1] ^= 1;
    if (!code && setting("lose_block", current_gpu(), 0) && size >= 131072)
        memcpy((unsigned char *)to + 65536, to, 65536); /* an address line that is stuck */
    return code;
}

/* `.version 7.8` as 78, `.target sm_90` as 90. */
static int ptx_number(const char *text, const char *directive)
{
    const char *found = strstr(text, directive);
    int number = 0;

    for (found = found ? found + strlen(directive) : ""; *found && *found != '\n'; found++)
        if (*found >= '0' && *found <= '9')
            number = number * 10 + (*found - '0');
    return number;
}

int cuModuleLoadData(void **out, const void *image)
{
    int target = ptx_number(image, ".target sm_");

    BEHAVE(current_gpu());
    if (getenv("CUDA_DISABLE_JIT") || getenv("CUDA_DISABLE_PTX_JIT"))
        return CUDA_ERROR_JIT_COMPILATION_DISABLED;
    if (ptx_number(image, ".version ") > setting("ptx_newest", current_gpu(), 87))
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    if (target > setting("capability", current_gpu(), 90) || target < setting("target_oldest", current_gpu(), 30))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    *out = context_mark;
    return CUDA_SUCCESS;
}

int cuModuleGetFunction(void **out, void *module, const char *name)
{
    BEHAVE(current_gpu());
    if (module != context_mark || strcmp(name, "nodemend_probe") != 0)
        return CUDA_ERROR_NOT_FOUND;
    *out = context_mark;
    return CUDA_SUCCESS;
}

int cuModuleUnload(void *module)
{
    (void)module;
    BEHAVE(current_gpu());
    return CUDA_SUCCESS;
}

static uint32_t probe_word(uint32_t index, uint32_t input, uint32_t seed)
{
    uint32_t word = input ^ ((index % 16384) * 2654435761u + seed);
    int round;

    for (round = 0; round < 4; round++) {
        word = word * 1664525u + 1013904223u;
        word ^= word >> 15;
    }
    return word ^ ((index / 16384) * 2654435769u);
}

int cuLaunchKernel(void *function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                   unsigned int by, unsigned int bz, unsigned int shared, void *stream, void **parameters,
                   void **extra)
{
    uint32_t *words, count, seed, index;
    uint64_t threads = (uint64_t)gx * bx;

    (void)shared, (void)stream, (void)extra;
    BEHAVE(current_gpu());
    if (function != context_mark || gy != 1 || gz != 1 || by != 1 || bz != 1 || bx > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    words = (uint32_t *)(uintptr_t)*(pointer *)parameters[0];
    count = *(uint32_t *)parameters[1];
    seed = *(uint32_t *)parameters[2];
    if (setting("idle_kernel", current_gpu(), 0))
        return CUDA_SUCCESS;
    for (index = 0; index < count && index < threads; index++)
        words[index] = probe_word(index, words[index], seed);
    index = (uint32_t)setting("wrong_word", current_gpu(), -1);
    if (index < count)
        words[index] ^= 1;
    return CUDA_SUCCESS;
}

int cuCtxSynchronize(void)
{
    BEHAVE(current_gpu());
    return CUDA_SUCCESS;
}
