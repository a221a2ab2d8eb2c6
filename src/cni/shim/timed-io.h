// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// A point of CLOCK_MONOTONIC in milliseconds.
typedef int64_t instant;

instant now_ms(void);
instant earlier(instant a, instant b);
// For poll(): milliseconds until then, 0 when it is over.
int ms_until(instant end);
void sleep_ms(int ms);

// Reads until `size` bytes or the end; the number read, or -1 with errno (ETIMEDOUT when the deadline is over).
ssize_t read_up_to(int fd, char *bytes, size_t size, instant deadline);
bool read_exactly(int fd, char *bytes, size_t size, instant deadline);
bool write_all(int fd, const char *bytes, size_t size, instant deadline);
