// SPDX-License-Identifier: Apache-2.0
// The executable that a container runtime or Multus starts for each CNI verb: environment and stdin to the node
// daemon's socket, its answer to stdout. Static and tiny, because Multus in thick mode runs it in a container
// of 50 MiB and a tenth of a CPU, under a chroot without any runtime. See PROTOCOL.md.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "delegate.h"
#include "frames.h"
#include "own-answers.h"
#include "program.h"

extern char **environ;

static const char *command;
static instant deadline;
// Zero pages until they are used: a call of usual size touches few of them.
static struct request request;
static struct delegation delegation;
static struct answer answer;

static bool is_command(const char *name)
{
	return strcmp(command, name) == 0;
}

static int fail(int code, const char *message)
{
	return answer_error(&request, code, message, deadline);
}

// What to say when the daemon gave no answer. A DEL succeeds, because Multus may never repeat a failed one and
// the daemon collects what is left; everything else may be tried again.
static int fail_without_daemon(const char *message)
{
	if (is_command("DEL"))
		return 0;
	return fail(is_command("STATUS") ? NOT_AVAILABLE : TRY_AGAIN, message);
}

// A caller may start us without stdin, stdout or stderr, and our first socket would then be taken for one of them.
// What stands in fails at a read of stdin and at a write to stdout, as a closed one does.
static void hold_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		// A chroot may have no /dev; a socket that is not connected does as well.
		if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
			socket(AF_UNIX, SOCK_STREAM, 0);
	}
}

// What a caller may have left to us must not change how we end and how we see our children end.
static void reset_signals(void)
{
	// The reader of our output may go away: write() then fails instead of ending us silently.
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
	alarm((CALL_MS + ALARM_AFTER_CALL_MS) / 1000);
}

// NULL, or what is wrong.
static const char *read_stdin(void)
{
	ssize_t size = read_up_to(STDIN_FILENO, request.stdin_bytes, sizeof request.stdin_bytes, now_ms() + STDIN_MS);
	if (size < 0 && errno == ETIMEDOUT)
		return "stdin was not closed in time; a CNI plugin reads it to its end";
	// Without a configuration the daemon still knows what it attached.
	if (size < 0)
		return is_command("DEL") || is_command("VERSION") ? NULL : "stdin cannot be read";
	if (size > STDIN_MAX) {
		// Only as text, for the version to echo.
		request.stdin_bytes[STDIN_MAX] = '\0';
		return "stdin is larger than 1 MiB";
	}
	request.stdin_size = (size_t)size;
	return NULL;
}

static bool collect_environment(void)
{
	for (char **entry = environ; *entry != NULL; entry++) {
		size_t size = strlen(*entry) + 1;
		if (strncmp(*entry, "CNI_", 4) != 0)
			continue;
		if (size > sizeof request.environment - request.environment_size)
			return false;
		memcpy(request.environment + request.environment_size, *entry, size);
		request.environment_size += size;
	}
	return true;
}

// How long a listener is waited for. Who asks for STATUS asks again.
static int listen_patience_ms(bool is_repeated)
{
	if (is_command("DEL"))
		return is_repeated ? RETURN_DEL_MS : LISTEN_DEL_MS;
	return is_repeated && !is_command("STATUS") ? RETURN_MS : LISTEN_MS;
}

static int connect_to_daemon(const char *path, instant end)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof address.sun_path)
		return -1;
	strcpy(address.sun_path, path);
	for (;;) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0)
			return -1;
		// A unix socket connects at once or not at all.
		if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
			return fd;
		close(fd);
		if (now_ms() >= end)
			return -1;
		sleep_ms(LISTEN_RETRY_MS);
	}
}

// One request; runs what the daemon delegates until it has answered.
static enum message ask(int daemon)
{
	if (!send_request(daemon, &request, deadline))
		return MESSAGE_BROKEN;
	for (;;) {
		enum message received = receive_message(daemon, &answer, &delegation, deadline);
		if (received != MESSAGE_DELEGATION)
			return received;
#ifdef IPAM_AGENT
		return MESSAGE_MALFORMED;
#else
		if (run_delegate(&delegation, daemon, deadline, &answer) &&
		    send_delegate_end(daemon, &answer, deadline))
			continue;
		// It hung up, perhaps with an answer that is not to wait for the delegate.
		received = receive_message(daemon, &answer, &delegation, deadline);
		return received == MESSAGE_DELEGATION ? MESSAGE_BROKEN : received;
#endif
	}
}

int main(int argc, char **argv)
{
	static const char release[] = "kube-vhostuser " RELEASE "\n";
	// A runtime gives no arguments.
	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return write(STDOUT_FILENO, release, sizeof release - 1) == sizeof release - 1 ? 0 : 1;
	request.started = now_ms();
	deadline = request.started + CALL_MS;
	hold_standard_descriptors();
	reset_signals();
	command = getenv("CNI_COMMAND");
	if (command == NULL)
		command = "";
	const char *wrong = read_stdin();
	if (wrong != NULL)
		return fail(IO_FAILURE, wrong);
	if (is_command("VERSION"))
		return answer_version(&request, deadline);
	if (!collect_environment())
		return fail(IO_FAILURE, "the CNI_ environment is larger than 64 KiB");

	const char *path = getenv(SOCKET_VARIABLE);
	for (int repetition = 0; repetition <= REPETITIONS && now_ms() < deadline; repetition++) {
		// The daemon is being restarted or upgraded; every verb may be repeated.
		if (repetition > 0)
			sleep_ms(REPEAT_AFTER_MS);
		instant patience = now_ms() + listen_patience_ms(repetition > 0);
		int daemon = connect_to_daemon(path != NULL ? path : SOCKET_PATH, earlier(patience, deadline));
		if (daemon < 0)
			return fail_without_daemon(SERVER " does not listen; is its DaemonSet running on this node?");
		enum message received = ask(daemon);
		close(daemon);
		if (received == MESSAGE_MALFORMED)
			return fail_without_daemon(SERVER " answered with something else than this executable's protocol");
		if (received == MESSAGE_ANSWER)
			return write_all(STDOUT_FILENO, answer.body, answer.body_size, deadline) ? answer.exit_code : 1;
	}
	return fail_without_daemon(SERVER " went away, or its time was over, before it had answered");
}
