/* Puts the clock of the processes that load this library wrong, by as much as a
 * file says, for tests of machines whose clocks are off.
 *
 *   gcc -O2 -shared -fPIC -fno-stack-protector -DOFFSET_FILE='"/path"' -o clock.so clock.c
 *
 * Programs read the clock from the vDSO, and Go ones without asking libc: so
 * the functions there are overwritten, in this process's own copy of the page,
 * before main. Only the time of day is changed; what counts from the machine's
 * start is left alone. The file holds one struct setting and may be written to
 * while the processes run.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifndef __x86_64__
#error "written for x86-64"
#endif

/* refused is set when a process could not be given the wrong time, changed
 * counts those that were. */
struct setting {
  int64_t offset_ns;
  int32_t changed, refused;
};

static volatile struct setting *setting;

/* No function below may use the stack protector, thread-local memory or much
 * stack: Go calls them from wherever it is. */

static long call(long number, long a, long b) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
  return result;
}

static int gettime(clockid_t which, struct timespec *t) {
  long result = call(SYS_clock_gettime, which, (long)t);
  if (result == 0 && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
    int64_t offset = setting->offset_ns;
    t->tv_sec += offset / 1000000000;
    t->tv_nsec += offset % 1000000000;
    if (t->tv_nsec < 0) {
      t->tv_nsec += 1000000000;
      t->tv_sec--;
    } else if (t->tv_nsec >= 1000000000) {
      t->tv_nsec -= 1000000000;
      t->tv_sec++;
    }
  }
  return (int)result;
}

static int timeofday(struct timeval *tv, void *zone) {
  struct timespec t;
  if (zone)
    call(SYS_gettimeofday, 0, (long)zone);
  if (tv) {
    gettime(CLOCK_REALTIME, &t);
    tv->tv_sec = t.tv_sec;
    tv->tv_usec = t.tv_nsec / 1000;
  }
  return 0;
}

static time_t seconds(time_t *out) {
  struct timespec t;
  gettime(CLOCK_REALTIME, &t);
  if (out)
    *out = t.tv_sec;
  return t.tv_sec;
}

static void replace(unsigned char *entry, void *with) {
  static const unsigned char jump[] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *0(%rip) */
  memcpy(entry, jump, sizeof jump);
  memcpy(entry + sizeof jump, &with, sizeof with);
}

/* functions replaces what the vDSO at base has, and counts it. */
static int functions(unsigned char *base) {
  const ElfW(Ehdr) *head = (const void *)base;
  const ElfW(Phdr) *part = (const void *)(base + head->e_phoff);
  const ElfW(Dyn) *dynamic = NULL;
  uintptr_t slide = 0, page = (uintptr_t)sysconf(_SC_PAGESIZE), size = 0;
  int done = 0;
  for (int i = 0; i < head->e_phnum; i++) {
    if (part[i].p_type == PT_LOAD && !size) {
      slide = (uintptr_t)base + part[i].p_offset - part[i].p_vaddr;
      size = (part[i].p_memsz + page - 1) & -page;
    }
    if (part[i].p_type == PT_DYNAMIC)
      dynamic = (const void *)(base + part[i].p_offset);
  }
  const ElfW(Sym) *symbols = NULL;
  const char *names = NULL;
  for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
    if (dynamic->d_tag == DT_SYMTAB)
      symbols = (const void *)(slide + dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_STRTAB)
      names = (const void *)(slide + dynamic->d_un.d_ptr);
  }
  /* The kernel takes the mapping as a whole or not at all. */
  if (!symbols || !names || mprotect(base, size, PROT_READ | PROT_WRITE | PROT_EXEC))
    return 0;
  static const struct {
    const char *name;
    void *with;
  } wanted[] = {{"__vdso_clock_gettime", gettime}, {"__vdso_gettimeofday", timeofday}, {"__vdso_time", seconds}};
  /* Nothing says how many symbols there are; their names stand behind them. */
  for (const ElfW(Sym) *s = symbols; (const char *)(s + 1) <= names; s++)
    for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++)
      if (s->st_shndx != SHN_UNDEF && !strcmp(names + s->st_name, wanted[i].name)) {
        replace((unsigned char *)(slide + s->st_value), wanted[i].with);
        done++;
      }
  return mprotect(base, size, PROT_READ | PROT_EXEC) ? 0 : done;
}

__attribute__((constructor)) static void start(void) {
  int file = open(OFFSET_FILE, O_RDWR | O_CLOEXEC);
  if (file < 0)
    return;
  void *shared = mmap(NULL, sizeof *setting, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (shared == MAP_FAILED)
    return;
  setting = shared;
  unsigned char *base = (unsigned char *)getauxval(AT_SYSINFO_EHDR);
  if (base && functions(base) == 3)
    __sync_fetch_and_add(&((struct setting *)shared)->changed, 1);
  else
    __sync_fetch_and_add(&((struct setting *)shared)->refused, 1);
}
