/* A library that answers as NVIDIA's libnvidia-ml.so.1 does, for tests on
 * machines without a card. It needs no NVIDIA header: what it declares has
 * NVML's binary layout.
 *
 *   gcc -O2 -Wall -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 stub.c
 *
 * -DOLD_DRIVER leaves out what drivers of years ago lack.
 *
 * There are NVML_STUB_GPUS cards (2). NVML_STUB_STATE names a file that is read
 * again at every call, so that a test changes things while a program runs. Each
 * line is one of these; I is a card's index:
 *
 *   count N              there are N cards
 *   card I UTIL% USED_MIB TEMP_C POWER_W [PID:MIB ...]
 *   total I MIB          its memory
 *   name I TEXT          its model
 *   bus I NUMBER         its PCI bus; the index stays, whatever the order
 *   uuid I TEXT
 *   na I                 the driver knows no value of it
 *   lost I               it has fallen off the bus
 *   shut I               it can't be opened
 *   xid I CODE           a critical error has happened (reported once per process)
 *   ecc I N              uncorrected memory errors
 *   remap I              its memory can't be repaired
 *   mig I N              it is divided into N instances
 *   hang SECONDS         the next call takes that long
 *   die                  the next call kills the process
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int nvmlReturn_t;
enum {
  OK = 0,
  UNINITIALIZED = 1,
  INVALID_ARGUMENT = 2,
  NOT_SUPPORTED = 3,
  NOT_FOUND = 6,
  INSUFFICIENT_SIZE = 7,
  TIMEOUT = 10,
  GPU_IS_LOST = 15,
  ARGUMENT_VERSION_MISMATCH = 25,
  UNKNOWN = 999,
};

typedef struct card *nvmlDevice_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char text[32]; } nvmlPciInfo_t;
typedef struct { unsigned gpu, memory; } nvmlUtilization_t;
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } nvmlProcessInfo_t;
typedef struct { nvmlDevice_t device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } nvmlEventData_t;

#define MEMORY_V2 ((unsigned)(sizeof(nvmlMemory_v2_t) | (2u << 24)))
#define MAX_CARDS 64
#define MAX_INSTANCES 7
#define MAX_PROCESSES 64
#define MIB(n) ((unsigned long long)(n) << 20)
#define RESERVED_MIB 600

struct card {
  unsigned index, instance; /* instance counts from 1; 0 is a whole card */
  unsigned util, used, temp, power, total, bus, instances, ecc, processes;
  int unknown, lost, shut, remap, xid;
  char name[96], uuid[96];
  struct { unsigned pid, mib; } process[MAX_PROCESSES];
};

static struct card cards[MAX_CARDS];
static unsigned count, initialised;

static void reset(void) {
  const char *gpus = getenv("NVML_STUB_GPUS");
  count = gpus ? (unsigned)atoi(gpus) : 2;
  if (count > MAX_CARDS) count = MAX_CARDS;
  memset(cards, 0, sizeof cards);
  for (unsigned i = 0; i < MAX_CARDS; i++) {
    struct card *c = &cards[i];
    c->index = i, c->used = 3, c->temp = 30 + i, c->power = 60, c->total = 81920, c->bus = 7 + i;
    snprintf(c->name, sizeof c->name, "NVIDIA A100-SXM4-80GB");
    snprintf(c->uuid, sizeof c->uuid, "GPU-00000000-0000-4000-8000-%012x", i + 1);
  }
}

static void apply(char *line) {
  unsigned i, a, b, c, d;
  int at;
  char text[96];
  line[strcspn(line, "\n")] = 0;
  if (sscanf(line, "count %u", &a) == 1 && a <= MAX_CARDS) count = a;
  else if (sscanf(line, "hang %u", &a) == 1) sleep(a);
  else if (!strcmp(line, "die")) abort();
  else if (sscanf(line, "%*s %u", &i) != 1 || i >= MAX_CARDS) return;
  else if (sscanf(line, "card %*u %u %u %u %u%n", &a, &b, &c, &d, &at) == 4) {
    struct card *g = &cards[i];
    g->util = a, g->used = b, g->temp = c, g->power = d;
    unsigned pid, mib;
    int n;
    for (char *s = line + at; g->processes < MAX_PROCESSES && sscanf(s, " %u:%u%n", &pid, &mib, &n) == 2; s += n) {
      g->process[g->processes].pid = pid;
      g->process[g->processes++].mib = mib;
    }
  }
  else if (sscanf(line, "total %*u %u", &a) == 1) cards[i].total = a;
  else if (sscanf(line, "name %*u %95[^\n]", text) == 1) strcpy(cards[i].name, text);
  else if (sscanf(line, "uuid %*u %95s", text) == 1) strcpy(cards[i].uuid, text);
  else if (sscanf(line, "bus %*u %u", &a) == 1) cards[i].bus = a;
  else if (sscanf(line, "xid %*u %u", &a) == 1) cards[i].xid = a;
  else if (sscanf(line, "ecc %*u %u", &a) == 1) cards[i].ecc = a;
  else if (sscanf(line, "mig %*u %u", &a) == 1 && a <= MAX_INSTANCES) cards[i].instances = a;
  else if (!strncmp(line, "na ", 3)) cards[i].unknown = 1;
  else if (!strncmp(line, "lost ", 5)) cards[i].lost = 1;
  else if (!strncmp(line, "shut ", 5)) cards[i].shut = 1;
  else if (!strncmp(line, "remap ", 6)) cards[i].remap = 1;
}

static void refresh(void) {
  reset();
  const char *path = getenv("NVML_STUB_STATE");
  FILE *f = path ? fopen(path, "r") : NULL;
  if (!f) return;
  char line[4096];
  while (fgets(line, sizeof line, f)) apply(line);
  fclose(f);
}

static nvmlReturn_t ready(nvmlDevice_t c) {
  if (!initialised) return UNINITIALIZED;
  if (!c) return INVALID_ARGUMENT;
  refresh();
  return cards[c->index].lost ? GPU_IS_LOST : OK;
}

/* NEED returns from a call on a card that can't be answered, KNOWN from one for
 * a value that the card may not have. */
#define NEED(c) do { nvmlReturn_t r = ready(c); if (r != OK) return r; } while (0)
#define KNOWN(c) do { NEED(c); if (cards[(c)->index].unknown) return NOT_SUPPORTED; } while (0)
#define WHOLE(c) do { KNOWN(c); if ((c)->instance) return NOT_SUPPORTED; } while (0)

static nvmlReturn_t put(char *to, unsigned size, const char *text) {
  if (strlen(text) + 1 > size) return INSUFFICIENT_SIZE;
  strcpy(to, text);
  return OK;
}

nvmlReturn_t nvmlInit_v2(void) {
  const char *fails = getenv("NVML_STUB_INIT_ERR");
  if (fails) return atoi(fails);
  initialised++;
  refresh();
  return OK;
}

nvmlReturn_t nvmlShutdown(void) {
  if (!initialised) return UNINITIALIZED;
  initialised--;
  return OK;
}

const char *nvmlErrorString(nvmlReturn_t r) {
  static char other[64];
  switch (r) {
  case OK: return "Success";
  case UNINITIALIZED: return "Uninitialized";
  case NOT_SUPPORTED: return "Not Supported";
  case 9: return "Driver Not Loaded";
  case GPU_IS_LOST: return "GPU is lost";
  case 18: return "Driver/library version mismatch";
  }
  snprintf(other, sizeof other, "stub error %d", r);
  return other;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *to, unsigned size) {
  return initialised ? put(to, size, "550.54.15") : UNINITIALIZED;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *n) {
  if (!initialised) return UNINITIALIZED;
  refresh();
  *n = count;
  return OK;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned i, nvmlDevice_t *c) {
  if (!initialised) return UNINITIALIZED;
  refresh();
  if (i >= count || i >= MAX_CARDS) return INVALID_ARGUMENT;
  if (cards[i].lost) return GPU_IS_LOST;
  if (cards[i].shut) return UNKNOWN;
  *c = &cards[i];
  return OK;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t c, char *to, unsigned size) {
  NEED(c);
  if (!c->instance) return put(to, size, cards[c->index].uuid);
  char text[96];
  snprintf(text, sizeof text, "MIG-0000000%u-0000-4000-8000-%012x", c->instance, c->index + 1);
  return put(to, size, text);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t c, char *to, unsigned size) {
  NEED(c);
  char text[112];
  snprintf(text, sizeof text, "%s%s", cards[c->index].name, c->instance ? " MIG 1g.10gb" : "");
  return put(to, size, text);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t c, nvmlPciInfo_t *p) {
  NEED(c);
  memset(p, 0, sizeof *p);
  p->bus = cards[c->index].bus;
  snprintf(p->text, sizeof p->text, "00000000:%02x:00.0", p->bus & 0xff);
  snprintf(p->legacy, sizeof p->legacy, "0000:%02x:00.0", p->bus & 0xff);
  return OK;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t c, nvmlMemory_t *m) {
  KNOWN(c);
  const struct card *g = &cards[c->index];
  unsigned share = c->instance ? 8 : 1;
  m->total = MIB(g->total / share);
  m->used = MIB((g->used + RESERVED_MIB) / share);
  m->free = m->total - m->used;
  return OK;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t c, nvmlUtilization_t *u) {
  WHOLE(c);
  u->gpu = cards[c->index].util;
  u->memory = u->gpu / 2;
  return OK;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t c, int sensor, unsigned *t) {
  WHOLE(c);
  *t = cards[c->index].temp;
  return OK;
}

static nvmlReturn_t processes(nvmlDevice_t c, unsigned *n, nvmlProcessInfo_t *list) {
  WHOLE(c);
  const struct card *g = &cards[c->index];
  unsigned room = *n;
  *n = g->processes;
  if (room < g->processes) return INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < g->processes; i++)
    list[i] = (nvmlProcessInfo_t){g->process[i].pid, MIB(g->process[i].mib), ~0u, ~0u};
  return OK;
}

#ifndef OLD_DRIVER

static struct card parts[MAX_CARDS][MAX_INSTANCES];
static int xid_told[MAX_CARDS];

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t c, unsigned *n, nvmlProcessInfo_t *list) {
  return processes(c, n, list);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t c, unsigned *n, nvmlProcessInfo_t *list) {
  WHOLE(c);
  *n = 0;
  return OK;
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t c, unsigned *n, nvmlProcessInfo_t *list) {
  WHOLE(c);
  *n = 0;
  return OK;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t c, nvmlMemory_v2_t *m) {
  KNOWN(c);
  if (m->version != MEMORY_V2) return ARGUMENT_VERSION_MISMATCH;
  const struct card *g = &cards[c->index];
  unsigned share = c->instance ? 8 : 1;
  m->total = MIB(g->total / share);
  m->reserved = MIB(RESERVED_MIB / share);
  m->used = MIB(g->used / share);
  m->free = m->total - m->used - m->reserved;
  return OK;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t c, unsigned *mw) {
  WHOLE(c);
  *mw = cards[c->index].power * 1000;
  return OK;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t c, int kind, int counter, unsigned long long *n) {
  WHOLE(c);
  *n = cards[c->index].ecc;
  return OK;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t c, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
  WHOLE(c);
  *corrected = *uncorrected = *pending = 0;
  *failed = cards[c->index].remap;
  return OK;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t c, unsigned *now, unsigned *next) {
  NEED(c);
  *now = *next = cards[c->index].instances > 0;
  return OK;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t c, unsigned *n) {
  NEED(c);
  *n = MAX_INSTANCES;
  return OK;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t c, unsigned i, nvmlDevice_t *part) {
  NEED(c);
  if (i >= cards[c->index].instances) return NOT_FOUND;
  parts[c->index][i] = (struct card){.index = c->index, .instance = i + 1};
  *part = &parts[c->index][i];
  return OK;
}

nvmlReturn_t nvmlEventSetCreate(void **set) {
  *set = cards;
  return initialised ? OK : UNINITIALIZED;
}

nvmlReturn_t nvmlEventSetFree(void *set) { return OK; }

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t c, unsigned long long types, void *set) {
  NEED(c);
  return OK;
}

nvmlReturn_t nvmlEventSetWait_v2(void *set, nvmlEventData_t *e, unsigned ms) {
  if (!initialised) return UNINITIALIZED;
  refresh();
  for (unsigned i = 0; i < count; i++) {
    if (!cards[i].xid || xid_told[i]) continue;
    xid_told[i] = 1;
    *e = (nvmlEventData_t){&cards[i], 8, cards[i].xid, ~0u, ~0u};
    return OK;
  }
  return TIMEOUT;
}

#else

/* The second generation of this call; the first had no instances. */
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t c, unsigned *n, nvmlProcessInfo_t *list) {
  return processes(c, n, list);
}

#endif
