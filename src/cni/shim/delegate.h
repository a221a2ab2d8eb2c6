// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frames.h"

// Exit codes of a delegate that has none of its own; stdout is then empty.
enum { DELEGATE_TOO_LONG = 124, DELEGATE_TOO_MUCH = 126, DELEGATE_NOT_FOUND = 127, DELEGATE_SIGNALLED = 128 };

// Runs an executable of CNI_PATH to its end; its exit code and stdout go to `end`. False when the daemon hung up
// meanwhile: the delegate has then been ended. A signal that asks this process to end does so after the delegate.
bool run_delegate(const struct delegation *delegation, int daemon, instant deadline, struct answer *end);
