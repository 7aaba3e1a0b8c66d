#include "privilege/system_calls.h"

#include <fmt/format.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace uroce::privilege {

namespace {

// clang-format off
/// Names that this machine's libseccomp or processor does not know are left out.
constexpr const char* kAllowed[] = {
    // Reading, writing, waiting.
    "close", "close_range", "dup", "dup2", "dup3", "lseek", "pread64", "preadv", "preadv2", "pwrite64", "pwritev",
    "pwritev2", "read", "readv", "sendfile", "splice", "tee", "write", "writev", "epoll_create", "epoll_create1",
    "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd", "eventfd2", "pipe", "pipe2", "poll", "ppoll",
    "pselect6", "select",
    // Files. The daemon is an ordinary user, or the operator's choice of a privileged one.
    "access", "chmod", "chown", "copy_file_range", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchmod",
    "fchmodat", "fchown", "fchownat", "fcntl", "fdatasync", "flock", "fstat", "fstatfs", "fsync", "ftruncate", "getcwd",
    "getdents", "getdents64", "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch", "ioctl",
    "lchown", "lstat", "mkdir", "mkdirat", "newfstatat", "open", "openat", "openat2", "readahead", "readlink",
    "readlinkat", "rename", "renameat", "renameat2", "rmdir", "stat", "statfs", "statx", "sync_file_range", "truncate",
    "umask", "unlink", "unlinkat", "utimensat",
    // Memory. mmap and mprotect have rules of their own.
    "brk", "get_mempolicy", "madvise", "mbind", "membarrier", "memfd_create", "mincore", "mlock", "mlock2", "mlockall",
    "move_pages", "mremap", "msync", "munlock", "munlockall", "munmap", "set_mempolicy",
    // Sockets. socket has a rule of its own.
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recvfrom", "recvmmsg",
    "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown", "socketpair",
    // Threads and limits. clone and tgkill have rules of their own.
    "arch_prctl", "capget", "capset", "exit", "exit_group", "futex", "futex_waitv", "get_robust_list", "getcpu",
    "getegid", "geteuid", "getgid", "getgroups", "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getrandom",
    "getresgid", "getresuid", "getrlimit", "getrusage", "getsid", "gettid", "getuid", "pidfd_open", "prctl", "prlimit64",
    "restart_syscall", "rseq", "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr",
    "sched_getparam", "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity", "sched_setattr",
    "sched_setparam", "sched_setscheduler", "sched_yield", "set_robust_list", "set_tid_address", "setpriority",
    "setrlimit", "sysinfo", "times", "uname",
    // Signals and time.
    "pause", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait",
    "sigaltstack", "signalfd", "signalfd4", "alarm", "clock_getres", "clock_gettime", "clock_nanosleep", "getitimer",
    "gettimeofday", "nanosleep", "setitimer", "time", "timer_create", "timer_delete", "timer_getoverrun",
    "timer_gettime", "timer_settime", "timerfd_create", "timerfd_gettime", "timerfd_settime",
};
// clang-format on

/// Clients, the kernel's view of addresses, telemetry, and sockets of net_af_packet.
constexpr int kFamilies[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET};

constexpr scmp_datum_t kNewNamespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

/// Builds the rules; the first error stays.
class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_ERRNO(ENOSYS)), seccomp_release) {
    if (context_ == nullptr) {
      note(-ENOMEM);
      return;
    }
    // Every thread, and no_new_privs with it.
    note(seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_TSYNC, 1));
    // Without this a filter turns store bypass off on older kernels. That slows the data path, and protects only
    // programs that run foreign code.
    note(seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_SSB, 1));
  }

  void allow(const char* name) {
    const int number = seccomp_syscall_resolve_name(name);
    if (number != __NR_SCMP_ERROR) add(number, nullptr, 0);
  }
  /// With an argument that, masked, has this value. Several rules of one call are alternatives.
  void allow(int number, unsigned argument, scmp_datum_t mask, scmp_datum_t value) {
    const scmp_arg_cmp compare{argument, SCMP_CMP_MASKED_EQ, mask, value};
    add(number, &compare, 1);
  }
  int load() {
    if (error_ == 0) note(seccomp_load(context_.get()));
    return error_;
  }

 private:
  void add(int number, const scmp_arg_cmp* compare, unsigned count) {
    if (error_ != 0) return;
    const int done = seccomp_rule_add_array(context_.get(), SCMP_ACT_ALLOW, number, count, compare);
    // -EDOM: this processor has no such call.
    if (done != -EDOM) note(done);
  }
  void note(int result) {
    if (error_ == 0 && result < 0) error_ = -result;
  }

  std::unique_ptr<void, decltype(&seccomp_release)> context_;
  int error_ = 0;
};

}  // namespace

Result<void> limit_system_calls(std::span<const char* const> more, std::span<const int> processes) {
  constexpr scmp_datum_t kLow = 0xffffffff;  // an int
  Filter filter;
  for (const char* name : kAllowed) filter.allow(name);
  for (const char* name : more) filter.allow(name);
  for (const int family : kFamilies) filter.allow(SCMP_SYS(socket), 0, kLow, static_cast<scmp_datum_t>(family));
  // Threads, and no other processes. clone3 hides its flags in memory, and the C library falls back to clone.
  filter.allow(SCMP_SYS(clone), 0, CLONE_THREAD | kNewNamespaces, CLONE_THREAD);
  for (const int flags : processes) filter.allow(SCMP_SYS(clone), 0, kLow, static_cast<scmp_datum_t>(flags));
  filter.allow(SCMP_SYS(tgkill), 0, kLow, static_cast<scmp_datum_t>(getpid()));
  // No memory that is both written and run, and none that becomes code later.
  filter.allow(SCMP_SYS(mmap), 2, PROT_EXEC, 0);
  filter.allow(SCMP_SYS(mmap), 2, PROT_WRITE, 0);
  filter.allow(SCMP_SYS(mprotect), 2, PROT_EXEC, 0);
  if (const int code = filter.load(); code != 0) {
    return fail(code, fmt::format("the kernel takes no filter of system calls: {}", std::strerror(code)));
  }
  return {};
}

}  // namespace uroce::privilege
