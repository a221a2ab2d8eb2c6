// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frames.h"

// Error codes of the CNI specification.
enum { IO_FAILURE = 5, TRY_AGAIN = 11, NOT_AVAILABLE = 50 };

// Each prints JSON that echoes the request's cniVersion, and gives this process's exit code.
int answer_version(const struct request *request, instant deadline);
int answer_error(const struct request *request, int code, const char *message, instant deadline);
