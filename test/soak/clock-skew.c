/*
 * Preloaded into a daemon under test: its wall clock is off by as many milliseconds as the first eight bytes of the
 * file SOAK_CLOCK_FILE say at that moment. Timers use the monotonic clock, which is not changed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_ms;

__attribute__((constructor)) static void find_offset(void)
{
	const char *path = getenv("SOAK_CLOCK_FILE");
	int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return;
	void *mapped = mmap(NULL, sizeof *offset_ms, PROT_READ, MAP_SHARED, file, 0);
	close(file);
	if (mapped != MAP_FAILED)
		offset_ms = mapped;
}

int clock_gettime(clockid_t id, struct timespec *time)
{
	if (syscall(SYS_clock_gettime, id, time) != 0)
		return -1;
	if (offset_ms != NULL && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		time->tv_sec += *offset_ms / 1000;
	return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
	struct timespec now;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &now) != 0)
		return -1;
	time->tv_sec = now.tv_sec;
	time->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *result)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (result != NULL)
		*result = now.tv_sec;
	return now.tv_sec;
}
