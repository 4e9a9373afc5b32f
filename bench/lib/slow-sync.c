/* For LD_PRELOAD: each sync of a file takes $SYNC_DELAY_US microseconds longer, as on a slower disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_longer(void) {
  const char *delay = getenv("SYNC_DELAY_US");
  if (delay != NULL) usleep((useconds_t)strtoul(delay, NULL, 10));
}

int fsync(int fd) {
  int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
  wait_longer();
  return real(fd);
}

int fdatasync(int fd) {
  int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
  wait_longer();
  return real(fd);
}
