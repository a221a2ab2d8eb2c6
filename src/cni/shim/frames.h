// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "bounds.h"
#include "timed-io.h"

struct request {
	// When the call began.
	instant started;
	char environment[ENVIRONMENT_MAX];
	size_t environment_size;
	// One byte more, so that the text ends with a NUL and too much of it shows.
	char stdin_bytes[STDIN_MAX + 1];
	size_t stdin_size;
};

struct delegation {
	char type[TYPE_MAX + 1];
	size_t type_size;
	char environment[ENVIRONMENT_MAX];
	size_t environment_size;
	char stdin_bytes[STDIN_MAX];
	size_t stdin_size;
};

struct answer {
	int exit_code;
	// What goes to stdout; before that, what a delegate wrote: one byte more, so that too much of it shows.
	char body[BODY_MAX + 1];
	size_t body_size;
};

enum message {
	MESSAGE_ANSWER,
	MESSAGE_DELEGATION,
	// The connection ended, or the deadline is over.
	MESSAGE_BROKEN,
	MESSAGE_MALFORMED,
};

bool send_request(int fd, const struct request *request, instant deadline);
enum message receive_message(int fd, struct answer *answer, struct delegation *delegation, instant deadline);
bool send_delegate_end(int fd, const struct answer *delegate, instant deadline);
