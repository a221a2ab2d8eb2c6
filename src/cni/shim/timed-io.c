// SPDX-License-Identifier: Apache-2.0
// Whole reads and writes on descriptors of any kind, blocking or not, with a deadline.
#include "timed-io.h"

#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

instant now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (instant)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

instant earlier(instant a, instant b)
{
	return a < b ? a : b;
}

int ms_until(instant end)
{
	instant left = end - now_ms();
	return left < 0 ? 0 : (int)left;
}

void sleep_ms(int ms)
{
	struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

static bool wait_ready(int fd, short events, instant deadline)
{
	for (;;) {
		struct pollfd ready = {.fd = fd, .events = events};
		int n = poll(&ready, 1, ms_until(deadline));
		if (n > 0)
			return true;
		if (n == 0)
			errno = ETIMEDOUT;
		if (n == 0 || errno != EINTR)
			return false;
	}
}

static bool is_passing(int error)
{
	return error == EINTR || error == EAGAIN || error == EWOULDBLOCK;
}

ssize_t read_up_to(int fd, char *bytes, size_t size, instant deadline)
{
	size_t done = 0;
	while (done < size) {
		if (!wait_ready(fd, POLLIN, deadline))
			return -1;
		ssize_t n = read(fd, bytes + done, size - done);
		if (n < 0 && is_passing(errno))
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

bool read_exactly(int fd, char *bytes, size_t size, instant deadline)
{
	return read_up_to(fd, bytes, size, deadline) == (ssize_t)size;
}

bool write_all(int fd, const char *bytes, size_t size, instant deadline)
{
	while (size > 0) {
		if (!wait_ready(fd, POLLOUT, deadline))
			return false;
		ssize_t n = write(fd, bytes, size);
		if (n < 0 && is_passing(errno))
			continue;
		if (n <= 0)
			return false;
		bytes += n;
		size -= (size_t)n;
	}
	return true;
}
