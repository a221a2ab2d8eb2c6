// SPDX-License-Identifier: Apache-2.0
// The frames of PROTOCOL.md.
#include "frames.h"

#include <stdio.h>
#include <string.h>

#define HEADER_MAX 48
#define DELEGATE_WORD "delegate "

bool send_request(int fd, const struct request *request, instant deadline)
{
	char header[80];
	int size = snprintf(header, sizeof header, "kube-vhostuser-cni 2 %lld %zu %zu\n", (long long)request->started,
			    request->environment_size, request->stdin_size);
	return write_all(fd, header, (size_t)size, deadline) &&
	       write_all(fd, request->environment, request->environment_size, deadline) &&
	       write_all(fd, request->stdin_bytes, request->stdin_size, deadline);
}

// Up to and with the newline, then a NUL. Byte by byte: what follows belongs to another buffer.
static enum message receive_header(int fd, char header[HEADER_MAX], instant deadline)
{
	for (size_t used = 0; used < HEADER_MAX - 1;) {
		if (!read_exactly(fd, header + used, 1, deadline))
			return MESSAGE_BROKEN;
		if (header[used++] == '\n') {
			header[used] = '\0';
			return MESSAGE_ANSWER;
		}
	}
	return MESSAGE_MALFORMED;
}

// A decimal number of at most `max`, closed by `closing`; moves on behind that.
static bool take_size(const char **at, size_t max, char closing, size_t *size)
{
	const char *digit = *at;
	size_t value = 0;
	for (; *digit >= '0' && *digit <= '9'; digit++) {
		value = value * 10 + (size_t)(*digit - '0');
		if (value > max)
			return false;
	}
	if (digit == *at || *digit != closing)
		return false;
	*at = digit + 1;
	*size = value;
	return true;
}

// NAME=value, each closed by a NUL, and only CNI's own names: a request must not choose a delegate's LD_PRELOAD.
static bool is_cni_environment(const char *block, size_t size)
{
	if (size > 0 && block[size - 1] != '\0')
		return false;
	for (const char *entry = block; entry < block + size; entry += strlen(entry) + 1) {
		if (strncmp(entry, "CNI_", 4) != 0 || strchr(entry, '=') == NULL)
			return false;
	}
	return true;
}

static enum message receive_delegation(int fd, const char *sizes, struct delegation *delegation, instant deadline)
{
	if (!take_size(&sizes, TYPE_MAX, ' ', &delegation->type_size) ||
	    !take_size(&sizes, ENVIRONMENT_MAX, ' ', &delegation->environment_size) ||
	    !take_size(&sizes, STDIN_MAX, '\n', &delegation->stdin_size))
		return MESSAGE_MALFORMED;
	if (!read_exactly(fd, delegation->type, delegation->type_size, deadline) ||
	    !read_exactly(fd, delegation->environment, delegation->environment_size, deadline) ||
	    !read_exactly(fd, delegation->stdin_bytes, delegation->stdin_size, deadline))
		return MESSAGE_BROKEN;
	delegation->type[delegation->type_size] = '\0';
	if (!is_cni_environment(delegation->environment, delegation->environment_size))
		return MESSAGE_MALFORMED;
	return MESSAGE_DELEGATION;
}

enum message receive_message(int fd, struct answer *answer, struct delegation *delegation, instant deadline)
{
	char header[HEADER_MAX];
	enum message received = receive_header(fd, header, deadline);
	if (received != MESSAGE_ANSWER)
		return received;
	if (strncmp(header, DELEGATE_WORD, strlen(DELEGATE_WORD)) == 0)
		return receive_delegation(fd, header + strlen(DELEGATE_WORD), delegation, deadline);
	const char *size = header + 2;
	if ((header[0] != '0' && header[0] != '1') || header[1] != ' ' ||
	    !take_size(&size, BODY_MAX, '\n', &answer->body_size))
		return MESSAGE_MALFORMED;
	answer->exit_code = header[0] - '0';
	return read_exactly(fd, answer->body, answer->body_size, deadline) ? MESSAGE_ANSWER : MESSAGE_BROKEN;
}

bool send_delegate_end(int fd, const struct answer *delegate, instant deadline)
{
	char header[HEADER_MAX];
	int size = snprintf(header, sizeof header, "%d %zu\n", delegate->exit_code, delegate->body_size);
	return write_all(fd, header, (size_t)size, deadline) &&
	       write_all(fd, delegate->body, delegate->body_size, deadline);
}
