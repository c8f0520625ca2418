/* What both fake libraries share: the scenario, and how a call behaves in it.
 *
 * The scenario is a file of `key=value` lines, named by NODEMEND_FAKE_DRIVER. A key may end in `@N` for the GPU with
 * index N; that one goes first. `NAME=CODE` makes the function NAME return CODE, `NAME=hang` makes it never return.
 */
#ifndef NODEMEND_SCENARIO_H
#define NODEMEND_SCENARIO_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define MAX_GPUS 256
#define SLICES 8 /* of one GPU, at most */

static char scenario_text[65536];
static int scenario_read = 0;

static inline void read_scenario(void)
{
    const char *path = getenv("NODEMEND_FAKE_DRIVER");
    FILE *file = path ? fopen(path, "r") : NULL;
    size_t size;

    scenario_read = 1;
    if (!file) {
        fprintf(stderr, "fake driver: NODEMEND_FAKE_DRIVER names no file\n");
        _exit(70);
    }
    scenario_text[0] = '\n';
    size = fread(scenario_text + 1, 1, sizeof scenario_text - 2, file);
    scenario_text[size + 1] = '\0';
    fclose(file);
}

/* The text after `key=`, NULL if there is none. */
static inline const char *find_key(const char *key)
{
    char wanted[160];
    const char *found;

    if (!scenario_read)
        read_scenario();
    snprintf(wanted, sizeof wanted, "\n%s=", key);
    found = strstr(scenario_text, wanted);
    return found ? found + strlen(wanted) : NULL;
}

static inline const char *find_setting(const char *key, int gpu)
{
    char own[128];
    const char *found = NULL;

    if (gpu >= 0) {
        snprintf(own, sizeof own, "%s@%d", key, gpu);
        found = find_key(own);
    }
    return found ? found : find_key(key);
}

static inline long long setting(const char *key, int gpu, long long otherwise)
{
    const char *found = find_setting(key, gpu);
    return found ? strtoll(found, NULL, 0) : otherwise;
}

static inline void text_setting(const char *key, int gpu, const char *otherwise, char *out, size_t size)
{
    const char *found = find_setting(key, gpu);
    size_t length = found ? strcspn(found, "\n") : strlen(otherwise);

    if (length >= size)
        length = size - 1;
    memcpy(out, found ? found : otherwise, length);
    out[length] = '\0';
}

/* As a call that waits inside the driver: it takes no polite signal. */
static inline void hang(void)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (;;)
        pause();
}

/* What the function is to return before it does anything: 0 is to go on. */
static inline int behaviour(const char *function, int gpu)
{
    const char *found = find_setting(function, gpu);

    if (!found)
        return 0;
    if (strncmp(found, "hang", 4) == 0)
        hang();
    if (strncmp(found, "crash", 5) == 0)
        abort();
    return (int)strtol(found, NULL, 0);
}

static inline int gpu_count(void) { return (int)setting("gpus", -1, 1); }

/* The same UUIDs in both libraries: the last byte is the GPU, the one before it the slice (0: the whole). */
static inline void uuid_bytes(int gpu, int slice, unsigned char out[16])
{
    static const unsigned char base[16] = {0x6e, 0x6f, 0x64, 0x65, 0x6d, 0x65, 0x6e, 0x64,
                                           0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
    memcpy(out, base, 16);
    out[14] = (unsigned char)slice;
    out[15] = (unsigned char)gpu;
}

static inline void uuid_text(int gpu, int slice, char *out, size_t size)
{
    unsigned char b[16];

    uuid_bytes(gpu, slice, b);
    snprintf(out, size, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             slice ? "MIG" : "GPU", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11],
             b[12], b[13], b[14], b[15]);
}

#endif
