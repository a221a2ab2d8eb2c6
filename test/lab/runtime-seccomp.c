/*
 * Runs a program under the seccomp profile `RuntimeDefault` of a container:
 *   runtime-seccomp CAPABILITIES PROGRAM [ARGUMENT...]
 * CAPABILITIES are those that the pod's manifest adds, in one argument. Refused is what containerd
 * (contrib/seccomp/seccomp_default.go) or CRI-O (pkg/seccomp/seccomp.json of containers/common) refuses. Both judge by
 * the manifest: with SYS_NICE a user other than root may set memory policies too, although it gets no capability.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct refusal {
	unsigned call;
	unsigned error;
} REFUSED[] = {
	/* Allowed with SYS_NICE. */
	{ SYS_get_mempolicy, EPERM }, { SYS_mbind, EPERM }, { SYS_set_mempolicy, EPERM },
	/* Allowed with no capability that a DPDK program may ask for. */
	{ SYS_acct, EPERM }, { SYS_add_key, EPERM }, { SYS_bpf, EPERM }, { SYS_chroot, EPERM },
	{ SYS_clock_settime, EPERM }, { SYS_delete_module, EPERM }, { SYS_fanotify_init, EPERM },
	{ SYS_finit_module, EPERM }, { SYS_fsconfig, EPERM }, { SYS_fsmount, EPERM }, { SYS_fsopen, EPERM },
	{ SYS_init_module, EPERM }, { SYS_io_uring_enter, EPERM }, { SYS_io_uring_register, EPERM },
	{ SYS_io_uring_setup, EPERM }, { SYS_ioperm, EPERM }, { SYS_iopl, EPERM }, { SYS_kcmp, EPERM },
	{ SYS_kexec_file_load, EPERM }, { SYS_kexec_load, EPERM }, { SYS_keyctl, EPERM },
	{ SYS_lookup_dcookie, EPERM }, { SYS_migrate_pages, EPERM }, { SYS_mount, EPERM },
	{ SYS_mount_setattr, EPERM }, { SYS_move_mount, EPERM }, { SYS_move_pages, EPERM }, { SYS_open_tree, EPERM },
	{ SYS_open_by_handle_at, EPERM }, { SYS_perf_event_open, EPERM }, { SYS_pivot_root, EPERM },
	{ SYS_process_madvise, EPERM }, { SYS_quotactl, EPERM }, { SYS_reboot, EPERM }, { SYS_request_key, EPERM },
	{ SYS_setdomainname, EPERM }, { SYS_sethostname, EPERM }, { SYS_setns, EPERM }, { SYS_settimeofday, EPERM },
	{ SYS_swapoff, EPERM }, { SYS_swapon, EPERM }, { SYS_sysfs, EPERM }, { SYS_umount2, EPERM },
	{ SYS_unshare, EPERM }, { SYS_uselib, EPERM }, { SYS_userfaultfd, EPERM }, { SYS_ustat, EPERM },
	{ SYS_vhangup, EPERM }, { SYS_vmsplice, EPERM },
	/* Its flags lie in memory, where a filter cannot see them. */
	{ SYS_clone3, ENOSYS },
};
enum { OF_SYS_NICE = 3, CALLS = sizeof(REFUSED) / sizeof(REFUSED[0]) };

int main(int count, char **arguments)
{
	struct sock_filter filter[2 * CALLS + 5] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	unsigned length = 4;
	for (unsigned at = count > 1 && strstr(arguments[1], "SYS_NICE") ? OF_SYS_NICE : 0; at < CALLS; at++) {
		filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, REFUSED[at].call, 0, 1);
		filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | REFUSED[at].error);
	}
	filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { .len = length, .filter = filter };
	if (count < 3 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
		perror("runtime-seccomp");
		return EXIT_FAILURE;
	}
	execvp(arguments[2], arguments + 2);
	perror(arguments[2]);
	return EXIT_FAILURE;
}
