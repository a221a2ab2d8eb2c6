// SPDX-License-Identifier: Apache-2.0
// The executable that a container runtime or Multus starts for each CNI verb: environment and stdin to the node
// daemon's socket, its answer to stdout. Static and tiny, because Multus in thick mode runs it in a container
// of 50 MiB and a tenth of a CPU, under a chroot without any runtime. See PROTOCOL.md.
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SOCKET_PATH "/run/kube-vhostuser/cni.sock"
#define STDIN_MAX (1 << 20)
#define ENVIRONMENT_MAX (1 << 16)
#define BODY_MAX (1 << 20)
#define ANSWER_SECONDS 90
#define RETRY_MS 100

enum { TRY_AGAIN = 11, NOT_AVAILABLE = 50, IO_FAILURE = 5 };

extern char **environ;

static const char *command;
static char stdin_bytes[STDIN_MAX + 1];
static size_t stdin_size;
static char environment[ENVIRONMENT_MAX];
static size_t environment_size;
static char body[BODY_MAX];

static bool is_command(const char *name)
{
	return strcmp(command, name) == 0;
}

static bool write_all(int fd, const char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, bytes, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		bytes += n;
		size -= (size_t)n;
	}
	return true;
}

// Reads until `size` bytes or the end; the number read, or -1.
static ssize_t read_up_to(int fd, char *bytes, size_t size)
{
	size_t done = 0;
	while (done < size) {
		ssize_t n = read(fd, bytes + done, size - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

// The caller's cniVersion, so that answers echo it. Only digits and dots are taken, so that it can be printed
// as it is. Nested objects have no such key in practice, and a wrong echo harms nobody.
static const char *cni_version(void)
{
	static char version[16];
	const char *at = strstr(stdin_bytes, "\"cniVersion\"");
	if (at != NULL) {
		at += strlen("\"cniVersion\"");
		at += strspn(at, " \t\r\n");
		if (*at == ':') {
			at += 1 + strspn(at + 1, " \t\r\n");
			size_t length = *at == '"' ? strspn(at + 1, "0123456789.") : 0;
			if (length > 0 && length < sizeof version && at[1 + length] == '"') {
				memcpy(version, at + 1, length);
				return version;
			}
		}
	}
	return "1.1.0";
}

static int answer_error(int code, const char *message)
{
	int size = snprintf(body, sizeof body, "{\"cniVersion\":\"%s\",\"code\":%d,\"msg\":\"vhostuser: %s\"}\n",
			    cni_version(), code, message);
	write_all(STDOUT_FILENO, body, (size_t)size);
	return 1;
}

static int answer_version(void)
{
	int size = snprintf(body, sizeof body,
			    "{\"cniVersion\":\"%s\",\"supportedVersions\":"
			    "[\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n",
			    cni_version());
	return write_all(STDOUT_FILENO, body, (size_t)size) ? 0 : 1;
}

// What to say when the daemon gave no answer. A DEL succeeds, because Multus may never repeat a failed one and
// the daemon collects what is left; everything else may be tried again.
static int answer_without_daemon(const char *message)
{
	if (is_command("DEL"))
		return 0;
	return answer_error(is_command("STATUS") ? NOT_AVAILABLE : TRY_AGAIN, message);
}

static bool collect_environment(void)
{
	for (char **entry = environ; *entry != NULL; entry++) {
		size_t size = strlen(*entry) + 1;
		if (strncmp(*entry, "CNI_", 4) != 0)
			continue;
		if (size > sizeof environment - environment_size)
			return false;
		memcpy(environment + environment_size, *entry, size);
		environment_size += size;
	}
	return true;
}

static int connect_to_daemon(const char *path, int wait_ms)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof address.sun_path)
		return -1;
	strcpy(address.sun_path, path);
	for (;; wait_ms -= RETRY_MS) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return -1;
		if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
			return fd;
		close(fd);
		if (wait_ms <= 0)
			return -1;
		nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000000L}, NULL);
	}
}

static bool send_request(int fd)
{
	char header[80];
	int size = snprintf(header, sizeof header, "kube-vhostuser-cni 1 %zu %zu\n", environment_size, stdin_size);
	return write_all(fd, header, (size_t)size) && write_all(fd, environment, environment_size) &&
	       write_all(fd, stdin_bytes, stdin_size);
}

// Reads "<exit code> <body bytes>\n" and the body; false when the answer is not whole.
static bool receive_answer(int fd, int *exit_code, size_t *body_size)
{
	char header[24];
	size_t used = 0;
	for (;;) {
		if (used == sizeof header - 1 || read_up_to(fd, header + used, 1) != 1)
			return false;
		if (header[used++] == '\n')
			break;
	}
	header[used] = '\0';
	char *end;
	if ((header[0] != '0' && header[0] != '1') || header[1] != ' ' || header[2] < '0' || header[2] > '9')
		return false;
	unsigned long size = strtoul(header + 2, &end, 10);
	if (*end != '\n' || size > sizeof body)
		return false;
	*exit_code = header[0] - '0';
	*body_size = size;
	return read_up_to(fd, body, size) == (ssize_t)size;
}

int main(void)
{
	// Whoever reads from us may go away: write() then fails instead of ending us without a word.
	signal(SIGPIPE, SIG_IGN);
	command = getenv("CNI_COMMAND");
	if (command == NULL)
		command = "";
	ssize_t size = read_up_to(STDIN_FILENO, stdin_bytes, sizeof stdin_bytes);
	if (size < 0)
		return answer_error(IO_FAILURE, "stdin cannot be read");
	if (size > STDIN_MAX)
		return answer_error(IO_FAILURE, "stdin is larger than 1 MiB");
	stdin_size = (size_t)size;
	// The last byte stays zero, so that the text can be searched.
	if (is_command("VERSION"))
		return answer_version();
	if (!collect_environment())
		return answer_error(IO_FAILURE, "the CNI_ environment is larger than 64 KiB");

	const char *path = getenv("KUBE_VHOSTUSER_CNI_SOCKET");
	int fd = connect_to_daemon(path != NULL ? path : SOCKET_PATH, is_command("DEL") ? 1000 : 5000);
	if (fd < 0)
		return answer_without_daemon("the node daemon does not listen; is its DaemonSet running on this node?");
	struct timeval patience = {.tv_sec = ANSWER_SECONDS};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	int exit_code;
	size_t body_size;
	if (!send_request(fd) || !receive_answer(fd, &exit_code, &body_size))
		return answer_without_daemon("the node daemon went away before it had answered");
	return write_all(STDOUT_FILENO, body, body_size) ? exit_code : 1;
}
