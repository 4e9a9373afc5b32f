/* For LD_PRELOAD: while the file $FAIL_SYNC exists, syncing the -wal of a database fails with EIO: once where the file says
   "once" (it is then removed), else always. What was written stays in the page cache, as on a disk that fails. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(int fd) {
  char link[64], name[4096], how[8] = "";
  const char *flag = getenv("FAIL_SYNC");
  if (flag == NULL || access(flag, F_OK) != 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, name, sizeof name - 1);
  if (length < 4 || strncmp(name + length - 4, "-wal", 4) != 0) return 0;
  int file = open(flag, O_RDONLY);
  if (file >= 0) {
    if (read(file, how, sizeof how - 1) < 0) how[0] = 0;
    close(file);
  }
  if (strcmp(how, "once") == 0) unlink(flag);
  errno = EIO;
  return 1;
}

int fsync(int fd) {
  int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
  return fails(fd) ? -1 : real(fd);
}

int fdatasync(int fd) {
  int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
  return fails(fd) ? -1 : real(fd);
}
