/*
 * What the lab measures from inside a guest; static, so that the guest needs no C library.
 *
 *   probe ping <address> <interval-ms> [count]
 *     ICMP echo at a steady pace until SIGTERM, SIGINT or `count` are sent, then up to a second for late answers.
 *     Prints sent= received= lost= duplicates= longest_gap_ms= longest_loss_ms= rtt_min_us= rtt_avg_us= rtt_max_us=
 *       longest_gap_ms   longest time between two answers
 *       longest_loss_ms  from the first unanswered request of the longest run of losses to the next answered one
 *   probe count <interface> [source-mac]
 *     Frames that arrive, until SIGTERM or SIGINT. Prints frames= bytes= dropped= (dropped: by the guest's kernel)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS 1000000LL
#define LATE_ANSWERS_NS (1000 * NS_PER_MS)
#define DRAIN_NS (1000 * NS_PER_MS) /* for frames that wait in the socket when the signal comes */

struct echo {
	int64_t sent;     /* ns, monotonic */
	int64_t answered; /* 0: not yet */
};

struct request {
	struct icmphdr icmp;
	uint32_t number; /* the 16 bits of ICMP wrap after 11 minutes at 10 ms */
};

static volatile sig_atomic_t stopping;

static void stop(int signal)
{
	(void)signal;
	stopping = 1;
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 * NS_PER_MS + t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "probe: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint16_t checksum(const void *data, size_t length)
{
	const uint16_t *word = data;
	uint32_t sum = 0;

	for (; length > 1; length -= 2)
		sum += *word++;
	sum = (sum >> 16) + (sum & 0xffff);
	sum += sum >> 16;
	return ~sum;
}

/* Reads one answer; returns its number or -1 for anything that is not an answer to us. */
static int64_t read_answer(int fd, uint16_t id)
{
	unsigned char packet[2048];
	struct request answer;
	ssize_t length = recv(fd, packet, sizeof(packet), MSG_DONTWAIT);
	size_t header;

	if (length < (ssize_t)sizeof(struct iphdr))
		return -1;
	header = ((struct iphdr *)packet)->ihl * 4;
	if ((size_t)length < header + sizeof(answer))
		return -1;
	memcpy(&answer, packet + header, sizeof(answer));
	if (answer.icmp.type != ICMP_ECHOREPLY || answer.icmp.un.echo.id != id)
		return -1;
	return answer.number;
}

static void report_ping(const struct echo *echoes, uint32_t sent, uint32_t received, uint32_t duplicates,
			int64_t longest_gap)
{
	int64_t longest_loss = 0, loss_start = 0, sum = 0, min = 0, max = 0;

	for (uint32_t i = 0; i < sent; i++) {
		int64_t rtt = echoes[i].answered - echoes[i].sent;

		if (echoes[i].answered == 0) {
			if (loss_start == 0)
				loss_start = echoes[i].sent;
			if (i + 1 == sent && echoes[i].sent - loss_start > longest_loss)
				longest_loss = echoes[i].sent - loss_start;
			continue;
		}
		if (loss_start != 0 && echoes[i].sent - loss_start > longest_loss)
			longest_loss = echoes[i].sent - loss_start;
		loss_start = 0;
		sum += rtt;
		if (min == 0 || rtt < min)
			min = rtt;
		if (rtt > max)
			max = rtt;
	}
	printf("sent=%u received=%u lost=%u duplicates=%u longest_gap_ms=%lld longest_loss_ms=%lld "
	       "rtt_min_us=%lld rtt_avg_us=%lld rtt_max_us=%lld\n",
	       sent, received, sent - received, duplicates, (long long)(longest_gap / NS_PER_MS),
	       (long long)(longest_loss / NS_PER_MS), (long long)(min / 1000),
	       (long long)(received ? sum / received / 1000 : 0), (long long)(max / 1000));
}

static void ping(const char *address, long interval_ms, uint32_t count)
{
	struct sockaddr_in peer = { .sin_family = AF_INET };
	struct echo *echoes = NULL;
	uint32_t sent = 0, room = 0, received = 0, duplicates = 0;
	int64_t next = now(), last_answer = 0, longest_gap = 0, end = 0;
	uint16_t id = getpid() & 0xffff;
	int fd = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);

	if (fd < 0)
		die("raw socket");
	if (inet_pton(AF_INET, address, &peer.sin_addr) != 1 || interval_ms < 1) {
		fprintf(stderr, "probe: not an IPv4 address and an interval in ms: %s %ld\n", address, interval_ms);
		exit(2);
	}
	while (end == 0 || (received < sent && now() < end)) {
		struct pollfd readable = { .fd = fd, .events = POLLIN };
		int64_t at = now();

		if (end == 0 && (stopping || (count != 0 && sent == count)))
			end = at + LATE_ANSWERS_NS;
		if (end == 0 && at >= next) {
			struct request request = { .icmp = { .type = ICMP_ECHO }, .number = sent };

			if (sent == room) {
				room = room ? room * 2 : 4096;
				echoes = realloc(echoes, room * sizeof(*echoes));
				if (echoes == NULL)
					die("memory");
			}
			request.icmp.un.echo.id = id;
			request.icmp.un.echo.sequence = htons(sent & 0xffff);
			request.icmp.checksum = checksum(&request, sizeof(request));
			echoes[sent++] = (struct echo){ .sent = at };
			/* One that the kernel refuses (no route, no answer to ARP) is one that is lost. */
			sendto(fd, &request, sizeof(request), 0, (struct sockaddr *)&peer, sizeof(peer));
			/* After a stall continue at the pace: a burst would measure the burst. */
			next = next + interval_ms * NS_PER_MS > at ? next + interval_ms * NS_PER_MS
								   : at + interval_ms * NS_PER_MS;
			at = now();
		}
		int64_t until = end == 0 ? next : end;
		int64_t wait = until > at ? until - at : 0;
		struct timespec limit = { .tv_sec = wait / (1000 * NS_PER_MS), .tv_nsec = wait % (1000 * NS_PER_MS) };

		if (ppoll(&readable, 1, &limit, NULL) < 1)
			continue;
		int64_t number = read_answer(fd, id);
		if (number < 0 || number >= sent)
			continue;
		if (echoes[number].answered != 0) {
			duplicates++;
			continue;
		}
		at = now();
		echoes[number].answered = at;
		received++;
		if (last_answer != 0 && at - last_answer > longest_gap)
			longest_gap = at - last_answer;
		last_answer = at;
	}
	report_ping(echoes, sent, received, duplicates, longest_gap);
}

static int parse_mac(const char *text, unsigned char *mac)
{
	return sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
		      &mac[5]) == 6;
}

static void count_frames(const char *interface, const char *source)
{
	struct sockaddr_ll link = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	struct { unsigned packets, drops; } stats = { 0 }; /* tpacket_stats, which musl does not name */
	socklen_t stats_length = sizeof(stats);
	unsigned char mac[ETH_ALEN], frame[2048];
	unsigned long long frames = 0, bytes = 0;
	int buffer = 16 << 20, fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (fd < 0)
		die("packet socket");
	if (source != NULL && !parse_mac(source, mac)) {
		fprintf(stderr, "probe: not a MAC address: %s\n", source);
		exit(2);
	}
	link.sll_ifindex = if_nametoindex(interface);
	if (link.sll_ifindex == 0)
		die(interface);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer));
	if (bind(fd, (struct sockaddr *)&link, sizeof(link)) != 0)
		die("bind");
	for (int64_t end = 0; end == 0 || now() < end;) {
		struct pollfd readable = { .fd = fd, .events = POLLIN };

		if (poll(&readable, 1, stopping ? 0 : 100) < 1) {
			if (stopping)
				break;
			continue;
		}
		if (stopping && end == 0)
			end = now() + DRAIN_NS;
		struct sockaddr_ll from;
		socklen_t from_length = sizeof(from);
		ssize_t length = recvfrom(fd, frame, sizeof(frame), MSG_DONTWAIT | MSG_TRUNC,
					  (struct sockaddr *)&from, &from_length);

		if (length < ETH_HLEN || from.sll_pkttype == PACKET_OUTGOING)
			continue;
		if (source != NULL && memcmp(frame + ETH_ALEN, mac, ETH_ALEN) != 0)
			continue;
		frames++;
		bytes += length;
	}
	getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &stats_length);
	printf("frames=%llu bytes=%llu dropped=%u\n", frames, bytes, stats.drops);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = stop };

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	if (argc >= 4 && strcmp(argv[1], "ping") == 0) {
		ping(argv[2], strtol(argv[3], NULL, 10), argc > 4 ? strtoul(argv[4], NULL, 10) : 0);
	} else if (argc >= 3 && strcmp(argv[1], "count") == 0) {
		count_frames(argv[2], argc > 3 ? argv[3] : NULL);
	} else {
		fprintf(stderr, "usage: probe ping ADDRESS INTERVAL-MS [COUNT] | probe count INTERFACE [SOURCE-MAC]\n");
		return 2;
	}
	return 0;
}
