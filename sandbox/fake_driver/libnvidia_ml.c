/* A fake libnvidia-ml.so.1: the functions that Nodemend calls, answering as the scenario says.
 *
 * Structures and codes are those of NVIDIA's documented interface (NVML API reference); written for these tests.
 * With -DOLD_DRIVER the functions that came later than about driver 450 are not there.
 */
#include "scenario.h"

#define NVML_SUCCESS 0
#define NVML_ERROR_INVALID_ARGUMENT 2
#define NVML_ERROR_NOT_SUPPORTED 3
#define NVML_ERROR_NOT_FOUND 6
#define NVML_ERROR_INSUFFICIENT_SIZE 7

struct device {
    int gpu;
    int slice; /* 0: the whole GPU */
};

typedef struct device *handle;

static struct device devices[MAX_GPUS][SLICES + 1];

static handle device_of(int gpu, int slice)
{
    devices[gpu][slice].gpu = gpu;
    devices[gpu][slice].slice = slice;
    return &devices[gpu][slice];
}

#define BEHAVE(gpu)                                \
    do {                                           \
        int code_ = behaviour(__func__, gpu);      \
        if (code_)                                 \
            return code_;                          \
    } while (0)

/* The answer to a question about a GPU: the setting, or "not supported" where the scenario says `none`. */
static int answer(const char *function, const char *key, handle device, long long otherwise, unsigned int *out)
{
    int code = behaviour(function, device->gpu);
    const char *found = find_setting(key, device->gpu);

    if (code)
        return code;
    if (device->slice || (found && strncmp(found, "none", 4) == 0))
        return NVML_ERROR_NOT_SUPPORTED;
    *out = (unsigned int)setting(key, device->gpu, otherwise);
    return NVML_SUCCESS;
}

int nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    BEHAVE(-1);
    return NVML_SUCCESS;
}

int nvmlShutdown(void)
{
    BEHAVE(-1);
    return NVML_SUCCESS;
}

int nvmlSystemGetDriverVersion(char *out, unsigned int size)
{
    BEHAVE(-1);
    text_setting("driver_version", -1, "570.86.15", out, size);
    return NVML_SUCCESS;
}

int nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    BEHAVE(-1);
    *out = (int)setting("cuda_version", -1, 12080);
    return NVML_SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned int *out)
{
    BEHAVE(-1);
    *out = (unsigned int)gpu_count();
    return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, handle *out)
{
    BEHAVE((int)index);
    if ((int)index >= gpu_count())
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = device_of((int)index, 0);
    return NVML_SUCCESS;
}

static void bus_id(int gpu, char *out, size_t size)
{
    char otherwise[32];

    snprintf(otherwise, sizeof otherwise, "00000000:%02X:00.0", (0x3b + gpu) & 0xff);
    text_setting("bus_id", gpu, otherwise, out, size);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *wanted, handle *out)
{
    char own[32];
    int gpu;

    BEHAVE(-1);
    for (gpu = 0; gpu < gpu_count(); gpu++) {
        bus_id(gpu, own, sizeof own);
        if (strcasecmp(own + (strlen(own) - 7), wanted + (strlen(wanted) - 7)) == 0) {
            *out = device_of(gpu, 0);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

int nvmlDeviceGetUUID(handle device, char *out, unsigned int size)
{
    BEHAVE(device->gpu);
    uuid_text(device->gpu, device->slice, out, size);
    return NVML_SUCCESS;
}

int nvmlDeviceGetName(handle device, char *out, unsigned int size)
{
    BEHAVE(device->gpu);
    text_setting("name", device->gpu, device->slice ? "NVIDIA Fake 100 MIG 1g.10gb" : "NVIDIA Fake 100", out, size);
    return NVML_SUCCESS;
}

struct pci_info {
    char legacy[16];
    unsigned int domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

int nvmlDeviceGetPciInfo_v3(handle device, struct pci_info *out)
{
    BEHAVE(device->gpu);
    memset(out, 0, sizeof *out);
    out->bus = 0x3b + (unsigned int)device->gpu;
    bus_id(device->gpu, out->bus_id, sizeof out->bus_id);
    return NVML_SUCCESS;
}

struct memory {
    unsigned long long total, free, used;
};

int nvmlDeviceGetMemoryInfo(handle device, struct memory *out)
{
    BEHAVE(device->gpu);
    out->total = (unsigned long long)setting("memory_total", device->gpu, 85899345920LL);
    out->used = (unsigned long long)setting("memory_used", device->gpu, 0);
    out->free = out->total - out->used;
    return NVML_SUCCESS;
}

struct utilization {
    unsigned int gpu, memory;
};

int nvmlDeviceGetUtilizationRates(handle device, struct utilization *out)
{
    out->memory = 0;
    return answer(__func__, "utilization", device, 0, &out->gpu);
}

int nvmlDeviceGetComputeMode(handle device, unsigned int *out)
{
    return answer(__func__, "compute_mode", device, 0, out);
}

int nvmlDeviceGetRetiredPagesPendingStatus(handle device, unsigned int *out)
{
    return answer(__func__, "retired_pending", device, 0, out);
}

/* NVIDIA documents the row counts as not supported on a GPU whose MIG instances are active. */
int nvmlDeviceGetRemappedRows(handle device, unsigned int *corr, unsigned int *unc, unsigned int *pending,
                              unsigned int *failed)
{
    int code;

    *corr = *unc = 0;
    if (setting("mig", device->gpu, 0))
        return NVML_ERROR_NOT_SUPPORTED;
    code = answer(__func__, "remap_pending", device, 0, pending);
    return code ? code : answer(__func__, "remap_failed", device, 0, failed);
}

/* A link falls to its lowest generation when the GPU idles; the fake libcuda says when it copies. */
static int under_load(void) { return getenv("NODEMEND_FAKE_COPIES") != NULL; }

int nvmlDeviceGetCurrPcieLinkGeneration(handle device, unsigned int *out)
{
    long long loaded = setting("link_generation", device->gpu, 4);
    return answer(__func__, under_load() ? "link_generation" : "link_generation_idle", device, loaded, out);
}

int nvmlDeviceGetMaxPcieLinkGeneration(handle device, unsigned int *out)
{
    return answer(__func__, "link_generation_max", device, 4, out);
}

int nvmlDeviceGetCurrPcieLinkWidth(handle device, unsigned int *out)
{
    return answer(__func__, "link_width", device, 16, out);
}

int nvmlDeviceGetMaxPcieLinkWidth(handle device, unsigned int *out)
{
    return answer(__func__, "link_width_max", device, 16, out);
}

#ifndef OLD_DRIVER
int nvmlDeviceGetGpuMaxPcieLinkGeneration(handle device, unsigned int *out)
{
    return answer(__func__, "link_generation_gpu_max", device, 5, out);
}
#endif

struct process {
    unsigned int pid;
    unsigned long long memory;
    unsigned int gpu_instance, compute_instance;
};

/* The scenario's `processes=41,42`. */
static int processes(const char *function, const char *key, handle device, unsigned int *count, struct process *out)
{
    int code = behaviour(function, device->gpu);
    char text[256], *rest, *each;
    unsigned int room = *count, found = 0;

    if (code)
        return code;
    text_setting(key, device->gpu, "", text, sizeof text);
    for (each = strtok_r(text, ",", &rest); each; each = strtok_r(NULL, ",", &rest), found++) {
        if (out && found < room) {
            memset(&out[found], 0, sizeof out[found]);
            out[found].pid = (unsigned int)strtoul(each, NULL, 10);
        }
    }
    *count = found;
    return found > (out ? room : 0) ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v2(handle device, unsigned int *count, struct process *out)
{
    return processes("nvmlDeviceGetComputeRunningProcesses", "processes", device, count, out);
}

#ifndef OLD_DRIVER
int nvmlDeviceGetComputeRunningProcesses_v3(handle device, unsigned int *count, struct process *out)
{
    return processes("nvmlDeviceGetComputeRunningProcesses", "processes", device, count, out);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(handle device, unsigned int *count, struct process *out)
{
    return processes("nvmlDeviceGetMPSComputeRunningProcesses", "mps_processes", device, count, out);
}

int nvmlDeviceGetMigMode(handle device, unsigned int *current, unsigned int *pending)
{
    *pending = (unsigned int)setting("mig", device->gpu, 0);
    return answer(__func__, "mig", device, 0, current);
}

int nvmlDeviceGetMaxMigDeviceCount(handle device, unsigned int *out)
{
    BEHAVE(device->gpu);
    *out = SLICES - 1;
    return NVML_SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(handle device, unsigned int index, handle *out)
{
    BEHAVE(device->gpu);
    if (!setting("mig", device->gpu, 0) || (long long)index >= setting("slices", device->gpu, 0))
        return NVML_ERROR_NOT_FOUND;
    *out = device_of(device->gpu, (int)index + 1);
    return NVML_SUCCESS;
}

struct attributes {
    unsigned int multiprocessors, copy, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mib;
};

int nvmlDeviceGetAttributes_v2(handle device, struct attributes *out)
{
    BEHAVE(device->gpu);
    memset(out, 0, sizeof *out);
    out->gpu_slices = out->compute_slices = 1;
    out->memory_mib = 9728;
    return NVML_SUCCESS;
}

struct field {
    unsigned int id, scope;
    long long timestamp, latency;
    unsigned int type, code;
    unsigned long long value;
};

#define RECOVERY_ACTION 230
#define TYPE_UNSIGNED_INT 1

int nvmlDeviceGetFieldValues(handle device, int count, struct field *fields)
{
    int i;

    BEHAVE(device->gpu);
    for (i = 0; i < count; i++) {
        unsigned int value = 0;

        fields[i].type = TYPE_UNSIGNED_INT;
        fields[i].code = NVML_ERROR_NOT_SUPPORTED;
        if (fields[i].id == RECOVERY_ACTION)
            fields[i].code = (unsigned int)answer("recoveryAction", "recovery_action", device, 0, &value);
        fields[i].value = value;
    }
    return NVML_SUCCESS;
}
#endif
