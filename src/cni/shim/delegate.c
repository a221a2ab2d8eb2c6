// SPDX-License-Identifier: Apache-2.0
// Runs another CNI plugin, for example for IPAM, as the daemon asks: it runs here, because what the runtime's
// plugins need (CNI_PATH, the file system, limits of the caller) is here and not in the daemon's container.
#define _GNU_SOURCE
#include "delegate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_BYTES 4096

enum ending { RUNS, HUNG_UP, TOO_LONG, TOO_MUCH, SIGNALLED };

struct child {
	// 0 once it was waited for: its number may then be another's.
	pid_t pid;
	// Our ends of its pipes, -1 when closed.
	int stdin_end;
	int stdout_end;
	size_t written;
	enum ending ending;
	bool is_told;
	int signal;
	instant deadline;
};

static bool is_file_name(const struct delegation *delegation)
{
	const char *type = delegation->type;
	return strlen(type) == delegation->type_size && strchr(type, '/') == NULL &&
	       strspn(type, ".") != delegation->type_size;
}

// The first executable file of that name in the absolute directories of CNI_PATH.
static bool find_executable(const char *type, char path[PATH_BYTES])
{
	const char *at = getenv("CNI_PATH");
	while (at != NULL && *at != '\0') {
		size_t length = strcspn(at, ":");
		int size = snprintf(path, PATH_BYTES, "%.*s/%s", (int)length, at, type);
		struct stat file;
		if (*at == '/' && size < PATH_BYTES && stat(path, &file) == 0 && S_ISREG(file.st_mode) &&
		    access(path, X_OK) == 0)
			return true;
		at += length + (at[length] == ':');
	}
	return false;
}

// This process's own environment with the given block in place of all CNI_ variables.
static char **delegate_environment(const struct delegation *delegation)
{
	const char *block = delegation->environment;
	const char *block_end = block + delegation->environment_size;
	size_t count = 1;
	for (char **entry = environ; *entry != NULL; entry++)
		count++;
	for (const char *byte = block; byte < block_end; byte++)
		count += *byte == '\0';
	char **result = calloc(count, sizeof *result);
	if (result == NULL)
		return NULL;
	size_t used = 0;
	for (char **entry = environ; *entry != NULL; entry++) {
		if (strncmp(*entry, "CNI_", 4) != 0)
			result[used++] = *entry;
	}
	for (const char *entry = block; entry < block_end; entry += strlen(entry) + 1)
		result[used++] = (char *)entry;
	return result;
}

static void become(const char *path, char **environment, int stdin_end, int stdout_end, const sigset_t *mask,
		   pid_t parent)
{
	char *arguments[] = {(char *)path, NULL};
	// The daemon repeats what a killed shim had begun; two of one delegate must not run side by side.
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(DELEGATE_NOT_FOUND);
	setpgid(0, 0);
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	if (dup2(stdin_end, STDIN_FILENO) >= 0 && dup2(stdout_end, STDOUT_FILENO) >= 0)
		execve(path, arguments, environment);
	_exit(DELEGATE_NOT_FOUND);
}

static bool start_child(struct child *child, const char *path, char **environment, const sigset_t *mask)
{
	int in[2], out[2];
	if (pipe2(in, O_CLOEXEC) < 0)
		return false;
	if (pipe2(out, O_CLOEXEC) < 0) {
		close(in[0]);
		close(in[1]);
		return false;
	}
	fcntl(in[1], F_SETFL, O_NONBLOCK);
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	pid_t parent = getpid();
	child->pid = fork();
	if (child->pid == 0)
		become(path, environment, in[0], out[1], mask, parent);
	// Here too, so that the group exists whichever of the two runs first.
	if (child->pid > 0)
		setpgid(child->pid, child->pid);
	close(in[0]);
	close(out[1]);
	child->stdin_end = in[1];
	child->stdout_end = out[0];
	return child->pid > 0;
}

static void close_end(int *end)
{
	if (*end >= 0)
		close(*end);
	*end = -1;
}

static void tell_to_end(struct child *child)
{
	child->is_told = true;
	child->deadline = now_ms() + DELEGATE_GRACE_MS;
	if (child->pid > 0)
		kill(-child->pid, SIGTERM);
}

static void end_child(struct child *child, enum ending why)
{
	if (child->ending != RUNS)
		return;
	child->ending = why;
	close_end(&child->stdin_end);
	close_end(&child->stdout_end);
	if (why == HUNG_UP)
		child->deadline = now_ms() + DELEGATE_PATIENCE_MS;
	else
		tell_to_end(child);
}

static void urge(struct child *child)
{
	if (child->is_told) {
		kill(-child->pid, SIGKILL);
		child->deadline = now_ms() + DELEGATE_GRACE_MS;
	} else {
		tell_to_end(child);
	}
}

static void feed(struct child *child, const struct delegation *delegation)
{
	size_t left = delegation->stdin_size - child->written;
	ssize_t n = left == 0 ? 0 : write(child->stdin_end, delegation->stdin_bytes + child->written, left);
	if (n > 0)
		child->written += (size_t)n;
	// One that closes its stdin early has read what it wants.
	bool is_closed = n < 0 && errno != EAGAIN && errno != EINTR;
	if (is_closed || child->written == delegation->stdin_size)
		close_end(&child->stdin_end);
}

// Takes what its stdout holds now.
static void collect(struct child *child, struct answer *end)
{
	while (child->stdout_end >= 0) {
		ssize_t n = read(child->stdout_end, end->body + end->body_size, sizeof end->body - end->body_size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
			close_end(&child->stdout_end);
		else
			end->body_size += (size_t)n;
		if (end->body_size > BODY_MAX)
			end_child(child, TOO_MUCH);
	}
}

// Whether the child has ended; takes note of a signal that asks this process to end.
static bool take_signals(struct child *child, int signals, int *status)
{
	struct signalfd_siginfo info;
	while (read(signals, &info, sizeof info) == sizeof info) {
		if (info.ssi_signo != SIGCHLD) {
			child->signal = (int)info.ssi_signo;
			end_child(child, SIGNALLED);
		}
	}
	// What it started ends with it. While it is not waited for, the group's number cannot be another's.
	siginfo_t ended = {0};
	if (waitid(P_PID, (id_t)child->pid, &ended, WEXITED | WNOWAIT | WNOHANG) < 0 || ended.si_pid == 0)
		return false;
	if (child->ending != RUNS)
		kill(-child->pid, SIGKILL);
	waitpid(child->pid, status, 0);
	child->pid = 0;
	return true;
}

// Until the child has been waited for; its status.
static int attend(struct child *child, const struct delegation *delegation, int daemon, int signals,
		  struct answer *end)
{
	int status = 0;
	for (;;) {
		struct pollfd fds[] = {
			{.fd = signals, .events = POLLIN},
			{.fd = child->ending == RUNS ? daemon : -1, .events = POLLRDHUP},
			{.fd = child->stdin_end, .events = POLLOUT},
			{.fd = child->stdout_end, .events = POLLIN},
		};
		if (poll(fds, sizeof fds / sizeof *fds, ms_until(child->deadline)) == 0) {
			if (child->ending != RUNS)
				urge(child);
			else
				end_child(child, TOO_LONG);
			continue;
		}
		if (fds[1].revents != 0)
			end_child(child, HUNG_UP);
		if (fds[2].revents != 0 && child->stdin_end >= 0)
			feed(child, delegation);
		if (fds[3].revents != 0)
			collect(child, end);
		if (fds[0].revents != 0 && take_signals(child, signals, &status))
			break;
	}
	// Not until the pipe's end: a process that it left behind may hold it open.
	collect(child, end);
	return status;
}

static int exit_code_of(enum ending ending, int status)
{
	if (ending == TOO_LONG)
		return DELEGATE_TOO_LONG;
	if (ending == TOO_MUCH)
		return DELEGATE_TOO_MUCH;
	return WIFSIGNALED(status) ? DELEGATE_SIGNALLED + WTERMSIG(status) : WEXITSTATUS(status);
}

// Signals arrive as bytes on `signals` while the child runs, so that poll() waits for everything at once.
static bool run(const char *path, char **environment, const struct delegation *delegation, int daemon,
		instant deadline, struct answer *end)
{
	sigset_t taken, mask;
	sigemptyset(&taken);
	sigaddset(&taken, SIGCHLD);
	sigaddset(&taken, SIGTERM);
	sigaddset(&taken, SIGINT);
	sigaddset(&taken, SIGHUP);
	sigprocmask(SIG_BLOCK, &taken, &mask);
	struct child child = {.stdin_end = -1, .stdout_end = -1};
	child.deadline = earlier(deadline, now_ms() + DELEGATE_MS);
	int signals = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals >= 0 && start_child(&child, path, environment, &mask)) {
		int status = attend(&child, delegation, daemon, signals, end);
		end->exit_code = exit_code_of(child.ending, status);
	}
	if (child.ending != RUNS)
		end->body_size = 0;
	close_end(&child.stdin_end);
	close_end(&child.stdout_end);
	close_end(&signals);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	if (child.ending == SIGNALLED) {
		signal(child.signal, SIG_DFL);
		raise(child.signal);
		_exit(DELEGATE_SIGNALLED + child.signal);
	}
	return child.ending != HUNG_UP;
}

bool run_delegate(const struct delegation *delegation, int daemon, instant deadline, struct answer *end)
{
	static char path[PATH_BYTES];
	end->exit_code = DELEGATE_NOT_FOUND;
	end->body_size = 0;
	if (!is_file_name(delegation) || !find_executable(delegation->type, path))
		return true;
	char **environment = delegate_environment(delegation);
	if (environment == NULL)
		return true;
	bool is_wanted = run(path, environment, delegation, daemon, deadline, end);
	free(environment);
	return is_wanted;
}
