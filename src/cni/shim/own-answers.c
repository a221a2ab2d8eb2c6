// SPDX-License-Identifier: Apache-2.0
// What the executable says itself, without the daemon.
#include "own-answers.h"

#include "program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The caller's cniVersion, so that answers echo it. Only digits and dots are taken, so that it can be printed
// as it is. Nested objects have no such key in practice, and a wrong echo does no harm.
static void find_version(const struct request *request, char version[16])
{
	const char *at = strstr(request->stdin_bytes, "\"cniVersion\"");
	if (at != NULL) {
		at += strlen("\"cniVersion\"");
		at += strspn(at, " \t\r\n");
		if (*at == ':') {
			at += 1 + strspn(at + 1, " \t\r\n");
			size_t length = *at == '"' ? strspn(at + 1, "0123456789.") : 0;
			if (length > 0 && length < 16 && at[1 + length] == '"') {
				memcpy(version, at + 1, length);
				version[length] = '\0';
				return;
			}
		}
	}
	strcpy(version, "1.1.0");
}

int answer_version(const struct request *request, instant deadline)
{
	char version[16], text[160];
	find_version(request, version);
	int size = snprintf(text, sizeof text,
			    "{\"cniVersion\":\"%s\",\"supportedVersions\":"
			    "[\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n",
			    version);
	return write_all(STDOUT_FILENO, text, (size_t)size, deadline) ? 0 : 1;
}

int answer_error(const struct request *request, int code, const char *message, instant deadline)
{
	// As docs/errors.md has them.
	const char *name = code == IO_FAILURE ? "invalid-request" : code == NOT_AVAILABLE ? "not-ready" : "daemon-unavailable";
	char version[16], text[320];
	find_version(request, version);
	int size = snprintf(text, sizeof text,
			    "{\"cniVersion\":\"%s\",\"code\":%d,\"msg\":\"" PROGRAM " %s: %s\"}\n", version, code,
			    name, message);
	write_all(STDOUT_FILENO, text, (size_t)size, deadline);
	return 1;
}
