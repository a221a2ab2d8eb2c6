// SPDX-License-Identifier: Apache-2.0
// Sizes in bytes and times in milliseconds, as PROTOCOL.md has them. The tests compile shorter times in.
#pragma once

#define STDIN_MAX (1 << 20)
#define ENVIRONMENT_MAX (1 << 16)
#define BODY_MAX (1 << 20)
#define TYPE_MAX 255

// The whole call; below the two minutes after which kubelet gives up on its runtime.
#ifndef CALL_MS
#define CALL_MS 110000
#endif
// SIGALRM ends a shim that hangs beyond its deadline, because its answer is not read.
#define ALARM_AFTER_CALL_MS 10000

#ifndef STDIN_MS
#define STDIN_MS 30000
#endif

// How long to try while the daemon does not listen: at first, and when a daemon that was there is coming back.
#ifndef LISTEN_MS
#define LISTEN_MS 5000
#define LISTEN_DEL_MS 1000
#define RETURN_MS 20000
#define RETURN_DEL_MS 5000
#endif
#define LISTEN_RETRY_MS 100

// A request whose connection broke is repeated; not without end, because it may be what breaks the daemon.
#define REPETITIONS 2
#ifndef REPEAT_AFTER_MS
#define REPEAT_AFTER_MS 1000
#endif

#ifndef DELEGATE_MS
#define DELEGATE_MS 60000
#endif
// For one whose result is not waited for any more to end by itself: killed in the middle of its own bookkeeping it may
// leave what cannot be removed, as host-local does with a lease file that it has made and not yet written.
#ifndef DELEGATE_PATIENCE_MS
#define DELEGATE_PATIENCE_MS 500
#endif
// Between SIGTERM and SIGKILL.
#ifndef DELEGATE_GRACE_MS
#define DELEGATE_GRACE_MS 2000
#endif
