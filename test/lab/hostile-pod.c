/*
 * A pod that misuses its interface's directory as fast as it can: hostile-pod ATTACK DIRECTORY [LIMIT]
 * It says "ready", waits for a file DIRECTORY/go, and continues until it is killed, or has made LIMIT things; then it says
 * "done" and waits. What fails is tried again.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static char path[4096];
static const char *directory;

static const char *numbered(const char *what, unsigned long n) {
  snprintf(path, sizeof path, "%s/%s%lu", directory, what, n);
  return path;
}

static int make_file(unsigned long n) {
  int fd = open(numbered("f", n), O_CREAT | O_WRONLY, 0600);
  return fd < 0 ? -1 : close(fd);
}

static int make_directory(unsigned long n) { return mkdir(numbered("d", n), 0700); }

static int make_attribute(unsigned long n) {
  char name[32];
  snprintf(name, sizeof name, "user.%lu", n);
  return setxattr(directory, name, "", 0, 0);
}

/* Kept open; a process that has no descriptor left continues in a child. */
static int make_temporary(unsigned long n) {
  (void)n;
  if (open(directory, O_TMPFILE | O_RDWR, 0600) >= 0) return 0;
  pid_t child = fork();
  if (child > 0) waitpid(child, NULL, 0);
  /* The descriptors are in a row from 3 on. */
  if (child == 0)
    for (int fd = 3; close(fd) == 0; fd++);
  return -1;
}

static int write_bytes(unsigned long n) {
  static char block[1 << 20];
  int fd = open(numbered("big", n % 8), O_CREAT | O_APPEND | O_WRONLY, 0600);
  if (fd < 0) return -1;
  ssize_t written = write(fd, block, sizeof block);
  close(fd);
  return written < 0 ? -1 : 0;
}

/* Needs root: a file beside the directory and the directory swap their places, while a child fills it. */
static int exchange(unsigned long n) {
  static char beside[4096];
  static int descriptor = -1;
  if (descriptor < 0) {
    snprintf(beside, sizeof beside, "%s-other", directory);
    close(open(beside, O_CREAT | O_WRONLY, 0600));
    descriptor = open(directory, O_RDONLY | O_DIRECTORY);
    if (fork() == 0) {
      char name[32];
      /* Always the same names: what the daemon removes meanwhile is there again at once. */
      for (unsigned long made = 0;; made++) {
        snprintf(name, sizeof name, "f%lu", made % 5000);
        int fd = openat(descriptor, name, O_CREAT | O_WRONLY, 0600);
        if (fd >= 0) close(fd);
      }
    }
  }
  (void)n;
  if (syscall(SYS_renameat2, AT_FDCWD, beside, AT_FDCWD, directory, 2 /* RENAME_EXCHANGE */) == 0) return 0;
  /* The daemon has taken one of them away: there is something to swap again. */
  close(open(beside, O_CREAT | O_WRONLY, 0600));
  return -1;
}

static const struct {
  const char *name;
  int (*make)(unsigned long);
} attacks[] = {
    {"files", make_file},          {"directories", make_directory}, {"attributes", make_attribute},
    {"temporaries", make_temporary}, {"bytes", write_bytes},          {"exchange", exchange},
};

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  directory = argv[2];
  unsigned long limit = argc > 3 ? strtoul(argv[3], NULL, 10) : ~0UL;
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  puts("ready");
  fflush(stdout);
  snprintf(path, sizeof path, "%s/go", directory);
  while (access(path, F_OK) < 0) usleep(1000);
  puts("begun");
  fflush(stdout);
  for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
    if (strcmp(argv[1], attacks[i].name) != 0) continue;
    unsigned long made = 0;
    for (unsigned long n = 0; made < limit; n++) if (attacks[i].make(n) == 0) made++;
    puts("done");
    fflush(stdout);
    pause();
  }
  return 2;
}
